package audit

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

const (
	dirMode  fs.FileMode = 0o700
	fileMode fs.FileMode = 0o600
	// fullMode is of a segment that nothing is appended to any more.
	fullMode fs.FileMode = 0o400

	lockFile   = "lock"
	segmentPre = "audit-"
	segmentEnd = ".jsonl"
)

// UnsafeError says that the directory or a file of the log cannot be trusted. It was not touched.
type UnsafeError struct {
	Path   string
	Reason string // "it is a symbolic link"
	Remedy string // the next command to type
}

func (e *UnsafeError) Error() string {
	return fmt.Sprintf("%s cannot be used: %s; try: %s", e.Path, e.Reason, e.Remedy)
}

// explain words what went wrong with the log's files.
func explain(doing, dir string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%s: the disk with %s is full: %w", doing, dir, err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%s: %s cannot be written: %w", doing, dir, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// secure makes the directory or checks that it is this user's alone.
func secure(dir string) error {
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(dir, dirMode); err != nil {
			return err
		}
		if err := syncDir(filepath.Dir(dir)); err != nil {
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

// openFile opens a file of the log that is this user's alone.
func openFile(name string, flag int) (*os.File, error) {
	f, err := os.OpenFile(name, flag|noFollow, fileMode)
	if err != nil {
		if info, looked := os.Lstat(name); looked == nil && !info.Mode().IsRegular() {
			return nil, &UnsafeError{name, "it is no ordinary file", "ls -l " + name}
		}
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		switch reason := notOurs(info, fileMode); {
		case !info.Mode().IsRegular():
			err = &UnsafeError{name, "it is no ordinary file", "ls -l " + name}
		case reason != "":
			err = &UnsafeError{name, reason, "chmod 600 " + name}
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func segmentName(index int) string { return fmt.Sprintf("%s%06d%s", segmentPre, index, segmentEnd) }

func segmentIndex(name string) (int, bool) {
	digits, end := strings.CutSuffix(name, segmentEnd)
	digits, pre := strings.CutPrefix(digits, segmentPre)
	n, err := strconv.Atoi(digits)
	return n, pre && end && err == nil && n > 0 && segmentName(n) == name
}

// segments are the indexes of the files of a log, the earliest first.
func segments(dir string) ([]int, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []int
	for _, entry := range entries {
		if n, ok := segmentIndex(entry.Name()); ok {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out, nil
}

// readSegment reads at most size bytes of a segment; negative: all.
func readSegment(dir string, index int, size int64) ([]byte, error) {
	f, err := os.OpenFile(filepath.Join(dir, segmentName(index)), os.O_RDONLY|noFollow|nonBlock, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, &UnsafeError{f.Name(), "it is no ordinary file", "ls -l " + f.Name()})
	}
	if size < 0 {
		return io.ReadAll(f)
	}
	return io.ReadAll(io.LimitReader(f, size))
}
