package selftest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"brig/orchestrator/owner"
)

// What a run makes outside of its own directory may outlive that directory, which
// the end of a login or of the system empties, and with it the record. So each
// directory says itself whether its run lives: by a lock in it.
const (
	holdLock = "lock"
	// freshFor is how long something may be without its lock.
	freshFor = time.Minute
	// unheldFor is the same in shared directories for temporary files, for what
	// was made there with no lock in it.
	unheldFor = time.Hour
)

// hold takes the lock of a directory outside of the yard's, for the life of the run.
func (y *yard) hold(dir string) error {
	held, err := owner.TryLock(filepath.Join(dir, holdLock))
	if err != nil {
		return err
	}
	if held == nil {
		return fmt.Errorf("%s has just been made and is in use", dir)
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	y.held = append(y.held, held)
	return nil
}

// release gives up every lock of hold, before the directories go: one system
// refuses to remove an open file.
func (y *yard) release() error {
	y.mu.Lock()
	defer y.mu.Unlock()
	var errs []error
	for _, held := range y.held {
		errs = append(errs, held.Close())
	}
	y.held = nil
	return errors.Join(errs...)
}

// sharedDirs are directories for temporary files where everybody may make some.
func sharedDirs() []string {
	dirs := []string{filepath.Clean(os.TempDir())}
	for _, dir := range []string{"/tmp", "/var/tmp"} {
		if filepath.IsAbs(dir) && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// sweepUnrecorded removes directories of dead runs that no record names any more. What
// cannot be removed now is nobody's obstacle: the next run tries again.
func (o Options) sweepUnrecorded() {
	var named []stray
	for _, dir := range o.ownDirs() {
		named = append(named, sweepHeld(dir, ownName, freshFor)...)
	}
	for _, dir := range sharedDirs() {
		sweepHeld(dir, strayName, unheldFor)
	}
	sweepMeetings()
	o.removeEmpty(named)
}

// sweepHeld removes the directories with prefix and a token for a name that lie in
// dir, and returns what their records name.
func sweepHeld(dir, prefix string, unheld time.Duration) []stray {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var named []stray
	for _, e := range entries {
		token, ok := strings.CutPrefix(e.Name(), prefix)
		if !ok || !isToken(token) || !e.IsDir() {
			continue
		}
		path := filepath.Join(dir, e.Name())
		info, err := os.Lstat(path)
		if err != nil || !info.IsDir() || !mine(info) || time.Since(info.ModTime()) <= freshFor {
			continue
		}
		named = append(named, sweepDead(path, time.Since(info.ModTime()) > unheld)...)
	}
	return named
}

// sweepDead removes a directory if nobody holds its lock. unheld: also if it has none.
func sweepDead(path string, unheld bool) []stray {
	lock := filepath.Join(path, holdLock)
	info, err := os.Lstat(lock)
	if errors.Is(err, os.ErrPermission) {
		_ = os.Chmod(path, 0o700) // an attempt has closed it
		info, err = os.Lstat(lock)
	}
	if errors.Is(err, os.ErrNotExist) && !unheld || err == nil && !info.Mode().IsRegular() {
		return nil
	}
	held, err := owner.TryLock(lock)
	if err != nil || held == nil {
		return nil
	}
	if !stillThere(held, lock) {
		_ = held.Close() // nothing was written
		return nil
	}
	named, _ := recorded(path) // damaged: what can be read of it
	removed := wipe(path)
	_ = held.Close()
	if removed != nil {
		_ = wipe(path) // for the system that refuses to remove an open file
	}
	return named
}
