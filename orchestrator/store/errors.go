package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/ncruces/go-sqlite3"

	"brig/orchestrator/private"
)

var (
	// ErrNameTaken is Add's answer when a session of that name exists.
	ErrNameTaken = errors.New("a session of that name exists")
	// ErrNotHeld is the answer to a change of a session that this process does not
	// hold: it was removed, or another process has taken it over.
	ErrNotHeld = errors.New("this process does not hold the session")
	// ErrClosed is the answer to every call after Close.
	ErrClosed = errors.New("the session store is closed")
	// ErrClaimed is Claim's and Forget's answer when another process was first.
	ErrClaimed = errors.New("another process has taken the session over")
)

// NewerError says that a later version of brig has written the file. It was not touched.
type NewerError struct {
	Path        string
	Have, Known int // schema versions
}

func (e *NewerError) Error() string {
	return fmt.Sprintf("%s was written by a newer brig (its schema is %d, this brig knows %d); use the newer brig, or move the file away: mv %s %s.newer",
		e.Path, e.Have, e.Known, e.Path, e.Path)
}

// Failed says that an error is of the database or the disk under it, whoever passes it on.
func Failed(err error) bool {
	var code sqlite3.ErrorCode
	return errors.As(err, &code) && code != sqlite3.INTERRUPT // that one is the caller's doing
}

// damaged says that the file is no intact database, whatever asks it.
func damaged(err error) bool {
	return errors.Is(err, sqlite3.CORRUPT) || errors.Is(err, sqlite3.NOTADB)
}

// diskFull finds out by writing. The driver says "disk I/O error" for a write that
// found no room on unix, and what the system said about it is gone by then.
func (s *Store) diskFull() bool { return full(s.probe()) }

func full(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// probe writes what nobody needs beside the database.
func (s *Store) probe() error {
	f, err := os.CreateTemp(filepath.Dir(s.path), "."+File+"-*")
	if err != nil {
		return err
	}
	_ = os.Remove(f.Name())                // so that a kill leaves nothing, where the system can
	_, err = f.Write(make([]byte, 16<<10)) // more than a usual change needs
	_, _ = f.Close(), os.Remove(f.Name())  // what was written does not matter
	return err
}

// Writable says why a change could not be recorded now, as far as a few bytes
// beside the database tell; nil: nothing speaks against it.
func (s *Store) Writable() error { return s.explain("write to the state directory", s.probe()) }

// suspectEnd is the end of the name of a file that makes the next start check
// every page, however large the database is.
const suspectEnd = ".suspect"

// suspect keeps what is said of a damaged file: that the next start sets it aside.
func (s *Store) suspect() {
	f, err := private.Open(s.path+suspectEnd, os.O_CREATE|os.O_WRONLY)
	if err == nil {
		_ = f.Close() // nothing was written to it
	}
}

// explain words what went wrong with the file; a statement's own error stays as it is.
func (s *Store) explain(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sqlite3.FULL), full(err), errors.Is(err, sqlite3.IOERR) && s.diskFull():
		return fmt.Errorf("%s: the disk with %s is full: %w", doing, s.path, err)
	case errors.Is(err, sqlite3.READONLY), errors.Is(err, sqlite3.PERM), errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%s: %s cannot be written: %w", doing, s.path, err)
	case errors.Is(err, sqlite3.BUSY):
		return fmt.Errorf("%s: other processes kept %s locked for %s: %w", doing, s.path, busyBound, err)
	case damaged(err):
		s.suspect()
		return fmt.Errorf("%s: %s is damaged, the next start sets it aside: %w", doing, s.path, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
