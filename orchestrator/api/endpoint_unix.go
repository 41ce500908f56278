//go:build !windows

package api

import (
	"errors"
	"io/fs"
	"syscall"
)

// nobody says that a socket is a file that was left behind, or gone by now.
func nobody(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist)
}

// full says that more wait for a listener than the system lets wait.
func full(err error) bool { return errors.Is(err, syscall.EAGAIN) }
