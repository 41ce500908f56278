package selftest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"brig/orchestrator/owner"
)

const (
	yardLock     = ".lock"
	yardRecord   = "elsewhere"    // in a yard's directory: what it made outside of it
	strayName    = "brig-st-"     // begins the name of everything made in shared directories
	ownName      = "selftest-"    // begins the name of what is made in brig's own directories
	runMark      = "BRIG_ST_RUN=" // in the environment of every process of a yard
	sharedMemory = "/dev/shm"
	pathRoom     = 100 // bytes that a socket's path may have on every system
)

// yard holds what the attempts of one run go for: listeners, canaries and decoys.
type yard struct {
	options Options
	token   string
	dir     string // below Options.Root; only its user may enter
	lock    io.Closer
	heard   *ears
	shared  map[string]any // targets that all plots have in common

	mu     sync.Mutex
	plots  []*plot
	record *os.File
	held   []io.Closer // see hold
}

// openYard removes what killed runs left, and makes the listeners.
func openYard(o Options) (*yard, error) {
	if err := sweepYards(o); err != nil {
		return nil, err
	}
	y := &yard{options: o, shared: map[string]any{}}
	if err := y.enter(); err != nil {
		return nil, err
	}
	record, err := os.OpenFile(filepath.Join(y.dir, yardRecord), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make the record of the self-test: %w", err), y.close())
	}
	y.record = record
	y.heard = &ears{got: map[string]bool{}}
	if err := y.listen(); err != nil {
		return nil, errors.Join(err, y.close())
	}
	return y, nil
}

// enter takes the lock that tells other runs that this one lives, and only then
// makes the directory: one whose lock is free has been left.
func (y *yard) enter() error {
	for range 10 {
		if err := os.MkdirAll(y.options.Root, 0o700); err != nil {
			return fmt.Errorf("make the directory of the self-test: %w", err)
		}
		y.token = random(8)
		y.dir = filepath.Join(y.options.Root, y.token)
		held, err := owner.TryLock(y.dir + yardLock)
		if errors.Is(err, os.ErrNotExist) {
			continue // another run has just removed the empty directory
		}
		if err != nil {
			return err
		}
		// A sweep may have found the file before it was locked, and removed it.
		if held == nil {
			continue
		}
		if !stillThere(held, y.dir+yardLock) {
			_ = held.Close()
			continue
		}
		y.lock = held
		if err := os.Mkdir(y.dir, 0o700); err != nil {
			return errors.Join(fmt.Errorf("make the directory of the self-test: %w", err), y.close())
		}
		return nil
	}
	return fmt.Errorf("the directory %s is removed again and again; look what does that with: ls -la %[1]s", y.options.Root)
}

func stillThere(held io.Closer, path string) bool {
	f, ok := held.(*os.File)
	if !ok {
		return true
	}
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(path)
	return err == nil && os.SameFile(mine, named)
}

// stray is one entry of the record. It is written before the thing is made.
type stray struct {
	Path string `json:"path"`
	// Empty: a directory that was missing; it goes only if nobody has put anything in it.
	Empty bool `json:"empty,omitempty"`
}

func (s stray) line() ([]byte, error) {
	line, err := json.Marshal(s)
	return append(line, '\n'), err
}

func (y *yard) note(path string, empty bool) error {
	line, err := stray{Path: path, Empty: empty}.line()
	if err != nil {
		return err
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	if _, err := y.record.Write(line); err != nil {
		return fmt.Errorf("write the record of the self-test: %w", err)
	}
	return nil
}

// close ends every process of the yard and removes everything it made.
func (y *yard) close() error {
	y.mu.Lock()
	plots := y.plots
	y.plots = nil
	y.mu.Unlock()
	var errs []error
	for _, p := range plots {
		errs = append(errs, p.close())
	}
	if len(plots) != 0 {
		killMarked(runMark + y.token)
	}
	if y.heard != nil {
		y.heard.close()
	}
	if y.record != nil {
		errs = append(errs, y.record.Close())
	}
	errs = append(errs, y.release(), y.options.remains(y.dir))
	// Removed while it is held, so that nobody takes the name in between, and once
	// more for the system that refuses to remove an open file.
	removed := os.Remove(y.dir + yardLock)
	errs = append(errs, y.lock.Close())
	if removed != nil {
		errs = append(errs, gone(os.Remove(y.dir+yardLock)))
	}
	_ = os.Remove(y.options.Root) // refused while another run is in it
	return errors.Join(errs...)
}

func gone(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
