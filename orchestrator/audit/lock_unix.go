//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package audit

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// noFollow keeps a link in the file's place from being followed.
	noFollow = unix.O_NOFOLLOW
	// nonBlock keeps a pipe in the file's place from being waited for.
	nonBlock = unix.O_NONBLOCK
)

// tryLock takes the exclusive lock of an open file if nobody has it.
func tryLock(f *os.File) (held bool, err error) {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
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

// unlock gives the lock up.
func unlock(f *os.File) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_UN); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
