// Package private keeps directories and files that are one user's alone, brings
// them to the disk, and takes the kernel's locks on them.
//
// What somebody else may have prepared is refused and not touched. The checks are
// of names in directories that nobody else can write, so that nothing changes
// between the look and the use; that the way to such a directory is the user's own
// is for whoever chose it to know.
package private

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

const (
	dirMode  fs.FileMode = 0o700
	FileMode fs.FileMode = 0o600
)

// UnsafeError says that a directory or a file cannot be trusted, or is not brig's.
// It was not touched.
type UnsafeError struct {
	Path   string
	Reason string // "it is a symbolic link"
	Remedy string // the next command to type
}

func (e *UnsafeError) Error() string {
	return fmt.Sprintf("%s cannot be used: %s; try: %s", e.Path, e.Reason, e.Remedy)
}

// Dir makes a directory, whose name is on the disk then, or checks that it is this
// user's alone. *UnsafeError: it is not.
func Dir(dir string) error {
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(dir, dirMode); err != nil {
			return err
		}
		if err := SyncDir(filepath.Dir(dir)); err != nil {
			return err
		}
		info, err = os.Lstat(dir)
	}
	if err != nil {
		return err
	}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return &UnsafeError{dir, "it is a symbolic link", "ls -l " + dir}
	case !info.IsDir():
		return &UnsafeError{dir, "it is no directory", "ls -l " + dir}
	}
	if reason := notOurs(info, dirMode); reason != "" {
		return &UnsafeError{dir, reason, "chmod 700 " + dir}
	}
	return nil
}

// Open opens a file that is this user's alone, and follows no link. Flags are of
// os.OpenFile; a file that it makes has FileMode. *UnsafeError: it is no such file.
func Open(name string, flag int) (*os.File, error) {
	f, err := os.OpenFile(name, flag|noFollow|nonBlock, FileMode)
	if err != nil {
		if info, looked := os.Lstat(name); looked == nil && !info.Mode().IsRegular() {
			return nil, ordinary(name, info)
		}
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = ordinary(name, info)
	}
	if err == nil {
		err = ours(name, info, FileMode)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Read opens an ordinary file to be read, whoever it belongs to, and follows no link.
func Read(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|noFollow|nonBlock, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = ordinary(name, info)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Check says whether what Lstat found at a name is an ordinary file of this user, with
// one name and no more than a mode. *UnsafeError: it is not.
func Check(name string, info fs.FileInfo, most fs.FileMode) error {
	if err := ordinary(name, info); err != nil {
		return err
	}
	if err := ours(name, info, most); err != nil {
		return err
	}
	if links(info) > 1 {
		return &UnsafeError{name, "it has a second name", "ls -l " + name}
	}
	return nil
}

func ordinary(name string, info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return &UnsafeError{name, "it is no ordinary file", "ls -l " + name}
	}
	return nil
}

func ours(name string, info fs.FileInfo, most fs.FileMode) error {
	if reason := notOurs(info, most); reason != "" {
		return &UnsafeError{name, reason, "chmod 600 " + name}
	}
	return nil
}

// Replace writes a file and puts it in the place of whatever has its name, a link
// included. Whoever reads meanwhile, or after a power cut, finds the old one or the
// new one, and a whole one. Nobody but this user can read it before it has its mode,
// which no umask changes. On an error nothing is left of the new one.
func Replace(name string, content []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".brig-*") // 0600
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = errors.Join(f.Chmod(mode), flush(f))
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// flush brings a file to the disk. Some file systems have nothing to sync.
func flush(f *os.File) error {
	if err := f.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}
