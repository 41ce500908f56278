//go:build windows

package main

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// enableColour makes a console understand the sequences; one that cannot gets none.
func enableColour(f *os.File) bool {
	h := windows.Handle(f.Fd())
	var mode uint32
	if err := windows.GetConsoleMode(h, &mode); err != nil {
		return false
	}
	return windows.SetConsoleMode(h, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}

// brokenPipe tells whether a write failed because its reader went away.
func brokenPipe(err error) bool {
	return errors.Is(err, windows.ERROR_BROKEN_PIPE) || errors.Is(err, windows.ERROR_NO_DATA)
}
