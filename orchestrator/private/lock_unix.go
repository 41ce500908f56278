//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package private

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

const (
	exclusive = unix.LOCK_EX
	shared    = unix.LOCK_SH

	// noFollow keeps a link in the file's place from being followed.
	noFollow = unix.O_NOFOLLOW
	// nonBlock keeps a pipe in the file's place from being waited for.
	nonBlock = unix.O_NONBLOCK
)

func take(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func try(f *os.File, how int) (bool, error) {
	err := take(f, how|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// Unlock gives a lock up before the file is closed.
func Unlock(f *os.File) error { return take(f, unix.LOCK_UN) }
