package api

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/windows"
)

// nobody says that a socket is a file that was left behind, or gone by now.
func nobody(err error) bool {
	return errors.Is(err, windows.WSAECONNREFUSED) || errors.Is(err, fs.ErrNotExist)
}

// full says that more wait for a listener than the system lets wait.
func full(error) bool { return false }
