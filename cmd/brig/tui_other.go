//go:build !windows

package main

import (
	"errors"
	"os"
	"syscall"
)

// enableColour has nothing to do: terminals understand the sequences.
func enableColour(*os.File) bool { return true }

// brokenPipe tells whether a write failed because its reader went away.
func brokenPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }
