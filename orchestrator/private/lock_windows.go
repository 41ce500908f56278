package private

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

const (
	exclusive = windows.LOCKFILE_EXCLUSIVE_LOCK
	shared    = 0

	noFollow, nonBlock = 0, 0
)

// take locks the file's first byte.
func take(f *os.File, how uint32) error {
	return windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, &windows.Overlapped{})
}

func try(f *os.File, how uint32) (bool, error) {
	err := take(f, how|windows.LOCKFILE_FAIL_IMMEDIATELY)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return false, nil
	}
	return err == nil, err
}

// Unlock gives a lock up before the file is closed.
func Unlock(f *os.File) error {
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, &windows.Overlapped{})
}
