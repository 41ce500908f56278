//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly || windows)

package owner

import (
	"errors"
	"fmt"
	"os"
)

func lock(*os.File) error {
	return fmt.Errorf("file locks on this system: %w", errors.ErrUnsupported)
}

func tryShared(*os.File) (free bool, err error) {
	return false, fmt.Errorf("file locks on this system: %w", errors.ErrUnsupported)
}

func tryExclusive(*os.File) (held bool, err error) {
	return false, fmt.Errorf("file locks on this system: %w", errors.ErrUnsupported)
}
