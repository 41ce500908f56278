//go:build unix

package sandboxtest

import (
	"syscall"
	"testing"
)

// openInheritable opens a file without close-on-exec until the test ends.
func openInheritable(t *testing.T, path string) {
	t.Helper()
	fd, err := syscall.Open(path, syscall.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) }) // opened for reading
}
