package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
)

// RemoveTree removes dir and everything below it; a dir that is not there is
// removed. It is for directories in which code has been and runs no more: unlike
// os.RemoveAll it opens directories that code has closed, and the depth of the
// tree costs neither descriptors nor memory. It follows no link, dir included.
// The paths in its errors are shortened: code chooses how long they are.
func RemoveTree(dir string) error {
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && info.IsDir() {
		err = empty(dir, info)
	}
	if err == nil {
		err = os.Remove(dir)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", shortened(dir), brief(err))
	}
	return nil
}

// empty removes everything in dir, which info was seen at.
func empty(dir string, info fs.FileInfo) error {
	if info.Mode().Perm()&0o700 != 0o700 {
		_ = os.Chmod(dir, 0o700) // where it fails, what follows says why
	}
	root, err := openDir(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if now, err := root.Stat("."); err != nil || !os.SameFile(info, now) {
		return errors.New("the directory changed while it was removed")
	}
	// Nobody makes files here any more, so all that are there may be looked at.
	r := remover{top: root, left: math.MaxInt}
	return r.content(root, "", 0)
}

// brief is an error of the operating system with a path that fits a line.
func brief(err error) error {
	var at *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &link):
		return &fs.PathError{Op: link.Op, Path: shortened(link.Old), Err: link.Err}
	case errors.As(err, &at):
		return &fs.PathError{Op: at.Op, Path: shortened(at.Path), Err: at.Err}
	}
	return err
}

// shortened keeps the beginning and the end of a long path.
func shortened(path string) string {
	const first, last = 80, 40
	if r := []rune(path); len(r) > first+1+last {
		return string(r[:first]) + "…" + string(r[len(r)-last:])
	}
	return path
}
