//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package owner

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock waits for the exclusive lock of f. It belongs to the open file, not to
// the process: a child that inherits nothing cannot keep it, and a second open
// in the same process sees it as held.
func lock(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// tryShared tells whether nobody holds f exclusively. It asks for a shared lock,
// so that two who ask at the same time do not take each other for the owner.
func tryShared(f *os.File) (free bool, err error) { return try(f, unix.LOCK_SH) }

// tryExclusive takes the exclusive lock of f if it is free.
func tryExclusive(f *os.File) (held bool, err error) { return try(f, unix.LOCK_EX) }

func try(f *os.File, how int) (bool, error) {
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return false, nil
		default:
			return false, err
		}
	}
}
