//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly || windows)

package private

import (
	"errors"
	"fmt"
	"os"
)

const exclusive, shared, noFollow, nonBlock = 0, 0, 0, 0

func take(*os.File, int) error {
	return fmt.Errorf("file locks on this system: %w", errors.ErrUnsupported)
}

func try(f *os.File, how int) (bool, error) { return false, take(f, how) }

// Unlock has nothing to give up.
func Unlock(*os.File) error { return nil }
