// Package runner holds the program that owns the interpreter inside an
// instance, and puts it where an interpreter can find it.
//
// The program is Python from 3.8 on, standard library only; its peer is the
// package wire. This package knows its files and nothing of how it is started
// or contained: that is what the backends are for.
package runner

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"slices"
)

//go:embed start.py brigrunner/*.py
var files embed.FS

// Files returns the program: start.py and the package beside it.
func Files() fs.FS { return files }

// Hash identifies the program: SHA-256, in hex, over each file's path, a NUL,
// its content and a NUL, in the order of the paths. A runner computes it over
// its own files and reports it in Ready.
func Hash() string {
	h := sha256.New()
	for _, name := range names() {
		h.Write([]byte(name + "\x00"))
		h.Write(content(name))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil))
}

// names lists the files, sorted.
func names() []string {
	var found []string
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		panic(fmt.Sprintf("BUG: embedded files: %v", err))
	}
	slices.Sort(found)
	return found
}

func content(name string) []byte {
	data, err := files.ReadFile(name)
	if err != nil {
		panic(fmt.Sprintf("BUG: embedded file: %v", err))
	}
	return data
}
