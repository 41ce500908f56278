//go:build !unix && !windows

package docker

// refused cannot be told here; the error's own text is shown instead.
func refused(error) bool { return false }

// broken cannot be told either.
func broken(error) bool { return false }
