//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly || windows)

package audit

import (
	"errors"
	"fmt"
	"os"
)

const noFollow, nonBlock = 0, 0

func tryLock(*os.File) (held bool, err error) {
	return false, fmt.Errorf("file locks on this system: %w", errors.ErrUnsupported)
}

func unlock(*os.File) error { return nil }
