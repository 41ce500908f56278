//go:build unix

package sandboxtest

import (
	"os"
	"path/filepath"
	"syscall"
)

// makeFIFO makes a named pipe as a program in the workspace could.
func makeFIFO(root *os.Root, name string) error {
	return syscall.Mkfifo(filepath.Join(root.Name(), name), 0o600)
}

// plantable says whether every kind of special file can be made here.
const plantable = true
