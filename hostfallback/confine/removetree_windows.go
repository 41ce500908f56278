package confine

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/windows"
)

// removePatience is for who looks at a new file before anybody else may remove it,
// such as a virus scanner.
const removePatience = 2 * time.Second

// RemoveTree removes dir and everything below it. A link goes, and what it leads
// to stays. The files may be marked read-only.
func RemoveTree(dir string) error {
	// As long as a label has to be restored, what says so has to stay.
	if err := RestoreLabels(dir); err != nil {
		return err
	}
	until := time.Now().Add(removePatience)
	// Who removes an instance holds its lock, and a file that is open keeps its
	// directory even when it was removed. So that one goes out first.
	lock, beside := filepath.Join(dir, LockFile), dir+"."+LockFile
	if err := os.Rename(lock, beside); err == nil {
		if err := removeEntry(beside, until); err != nil {
			return err
		}
	}
	return removeTree(dir, until)
}

func removeTree(path string, until time.Time) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	// What leads elsewhere is no directory for Lstat, but a link or irregular.
	if info.IsDir() {
		entries, err := os.ReadDir(path)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := removeTree(filepath.Join(path, e.Name()), until); err != nil {
				return err
			}
		}
	}
	return removeEntry(path, until)
}

func removeEntry(path string, until time.Time) error {
	for {
		err := os.Remove(path)
		switch {
		case err == nil || errors.Is(err, fs.ErrNotExist):
			return nil
		case errors.Is(err, fs.ErrPermission) && os.Chmod(path, 0o600) == nil && os.Remove(path) == nil:
			return nil
		case time.Now().After(until):
			return err
		case !errors.Is(err, windows.ERROR_SHARING_VIOLATION) && !errors.Is(err, windows.ERROR_DIR_NOT_EMPTY) && !errors.Is(err, fs.ErrPermission):
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}
