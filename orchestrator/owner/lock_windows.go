package owner

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// lock waits for the exclusive lock of f's first byte.
func lock(f *os.File) error {
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK, 0, 1, 0, &windows.Overlapped{})
}

// tryShared tells whether nobody holds f exclusively. It asks for a shared lock,
// so that two who ask at the same time do not take each other for the owner.
func tryShared(f *os.File) (free bool, err error) { return try(f, 0) }

// tryExclusive takes the exclusive lock of f if it is free.
func tryExclusive(f *os.File) (held bool, err error) {
	return try(f, windows.LOCKFILE_EXCLUSIVE_LOCK)
}

func try(f *os.File, how uint32) (bool, error) {
	err := windows.LockFileEx(windows.Handle(f.Fd()), how|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &windows.Overlapped{})
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, windows.ERROR_LOCK_VIOLATION), errors.Is(err, windows.ERROR_IO_PENDING):
		return false, nil
	default:
		return false, err
	}
}
