// Package owner says which brig something belongs to and whether that brig is
// still alive.
//
// An installation has one owner id, made once and kept in the state directory;
// every backend labels what it makes with it. A process has a token, random and
// new at every start; it holds a lock on a file of that name for as long as it
// lives. The kernel drops the lock when the process ends, however it ends, so a
// crash needs no clean-up to be noticed and a recycled process id cannot
// mislead anybody.
//
// The package neither removes what dead processes left (the backends do) nor
// protects the id: whoever may write the state directory is the user.
package owner

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"brig/orchestrator/private"
)

const (
	idFile    = "owner"
	locksDir  = "locks"
	guardFile = "guard" // held while lock files are made or swept
	lockEnd   = ".lock"
	idLength  = 32 // hex digits of 128 bits
)

// DamagedError says that the owner file holds no id. brig does not make a new
// one by itself: what carries the old id would never be cleaned up again.
type DamagedError struct{ Path string }

func (e *DamagedError) Error() string {
	return fmt.Sprintf("the owner file %s is damaged; if no backup of it exists, make a new one with: rm %s", e.Path, e.Path)
}

// Owner is this installation and this process. Its methods may be called concurrently.
type Owner struct {
	id, token string
	locks     string // directory

	mu   sync.Mutex
	held *os.File // nil after Close
}

// Open reads the owner id from the state directory, making both at the first
// start, and takes the lock of this process. The directory is made if missing.
func Open(state string) (*Owner, error) {
	locks := filepath.Join(state, locksDir)
	if err := os.MkdirAll(locks, 0o700); err != nil {
		return nil, fmt.Errorf("make the lock directory: %w", err)
	}
	guard, err := takeGuard(locks)
	if err != nil {
		return nil, err
	}
	defer guard.Close()

	id, err := readOrMakeID(filepath.Join(state, idFile))
	if err != nil {
		return nil, err
	}
	token := randomHex()
	// The guard keeps a sweep from finding this file before its lock is held.
	held, err := os.OpenFile(filepath.Join(locks, token+lockEnd), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make the lock file of this process: %w", err)
	}
	if err := private.Lock(held); err != nil {
		name := held.Name()
		return nil, errors.Join(fmt.Errorf("lock %s: %w", name, err), held.Close(), os.Remove(name))
	}
	return &Owner{id: id, token: token, locks: locks, held: held}, nil
}

// ID is the installation's: 32 hex digits.
func (o *Owner) ID() string { return o.id }

// Token is this process's: 32 hex digits.
func (o *Owner) Token() string { return o.token }

// Alive tells whether the process with that token still runs. Where it cannot
// tell it says yes, because the answer no lets others delete things.
func (o *Owner) Alive(token string) bool {
	if !isID(token) {
		return false
	}
	if token == o.token {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.held != nil
	}
	f, err := os.OpenFile(filepath.Join(o.locks, token+lockEnd), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	if err != nil {
		return true
	}
	defer f.Close()
	free, err := private.Free(f)
	return err != nil || !free
}

// Sweep removes the lock files of dead processes and returns how many.
func (o *Owner) Sweep() (removed int, err error) {
	guard, err := takeGuard(o.locks)
	if err != nil {
		return 0, err
	}
	defer guard.Close()
	entries, err := os.ReadDir(o.locks)
	if err != nil {
		return 0, fmt.Errorf("list lock files: %w", err)
	}
	var errs []error
	for _, entry := range entries {
		token, isLock := strings.CutSuffix(entry.Name(), lockEnd)
		if !isLock || !isID(token) || o.Alive(token) {
			continue
		}
		if err := os.Remove(filepath.Join(o.locks, entry.Name())); err != nil {
			errs = append(errs, fmt.Errorf("remove a stale lock file: %w", err))
			continue
		}
		removed++
	}
	return removed, errors.Join(errs...)
}

// Close gives up the process's lock; from then on others see the process as dead. It is idempotent.
func (o *Owner) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.held == nil {
		return nil
	}
	name, held := o.held.Name(), o.held
	o.held = nil
	// Closed before removed: one system refuses to remove an open file.
	return errors.Join(held.Close(), os.Remove(name))
}

// takeGuard waits for the lock that serialises making and sweeping lock files.
// It is held for a few file operations only; closing the file gives it up.
func takeGuard(locks string) (*os.File, error) {
	guard, err := os.OpenFile(filepath.Join(locks, guardFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock guard: %w", err)
	}
	if err := private.Lock(guard); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", guard.Name(), err), guard.Close())
	}
	return guard, nil
}

// readOrMakeID needs the guard. The id appears whole or not at all.
func readOrMakeID(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err == nil {
		id := strings.TrimSuffix(string(text), "\n")
		if !isID(id) {
			return "", &DamagedError{Path: path}
		}
		return id, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the owner id: %w", err)
	}
	id := randomHex()
	if err := private.Replace(path, []byte(id+"\n"), private.FileMode); err != nil {
		return "", fmt.Errorf("write the owner id: %w", err)
	}
	return id, nil
}

func isID(s string) bool {
	return len(s) == idLength && strings.Trim(s, "0123456789abcdef") == ""
}

func randomHex() string {
	var b [idLength / 2]byte
	rand.Read(b[:]) // never fails: it ends the program instead
	return hex.EncodeToString(b[:])
}
