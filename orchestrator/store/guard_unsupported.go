//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly || windows)

package store

import (
	"errors"
	"fmt"
	"os"
)

const noFollow = 0

func tryLock(*os.File) (held bool, err error) {
	return false, fmt.Errorf("file locks on this system: %w", errors.ErrUnsupported)
}
