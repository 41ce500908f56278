//go:build !linux && !darwin && !windows

package confine

import "os"

// RemoveTree removes dir and everything below it.
func RemoveTree(dir string) error { return os.RemoveAll(dir) }
