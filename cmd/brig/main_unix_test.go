//go:build unix

package main

import (
	"io"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// ordinary is a user without any rights: root would hide mistakes.
const ordinary = 65534

// becomeOrdinary replaces this process, if it is root and a copy is named, by
// brig as an ordinary user. Being the same process, it can be signalled.
func becomeOrdinary(executable string) {
	if executable == "" || os.Geteuid() != 0 {
		return
	}
	if err := syscall.Setgroups(nil); err != nil {
		log.Fatal(err)
	}
	if err := syscall.Setgid(ordinary); err != nil {
		log.Fatal(err)
	}
	if err := syscall.Setuid(ordinary); err != nil {
		log.Fatal(err)
	}
	args := append([]string{executable}, os.Args[1:]...)
	log.Fatal(syscall.Exec(executable, args, os.Environ()))
}

// ordinaryDir is a directory for the test in which an ordinary user may look around.
func ordinaryDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "brig-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// copyOfTest copies the test binary to where an ordinary user may execute it.
func copyOfTest(t *testing.T) string {
	t.Helper()
	name, err := copyBinary(ordinaryDir(t))
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func copyBinary(dir string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	from, err := os.Open(self)
	if err != nil {
		return "", err
	}
	defer from.Close()
	name := filepath.Join(dir, "brig")
	to, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return "", err
	}
	if _, err := io.Copy(to, from); err != nil {
		to.Close()
		return "", err
	}
	return name, to.Close()
}

// openParent lets that user reach a script's directory, whose parent testscript
// makes for root alone.
func openParent(work string) error {
	if parent := filepath.Dir(work); os.Geteuid() == 0 && strings.HasPrefix(filepath.Base(parent), "go-test-script") {
		return os.Chmod(parent, 0o711)
	}
	return nil
}

// giveToOrdinary hands a directory of a test to the user that brig runs as. What is
// above it is left alone: that may be the temporary directory of the whole machine.
func giveToOrdinary(work string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return filepath.WalkDir(work, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, ordinary, ordinary)
	})
}
