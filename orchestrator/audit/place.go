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

	"brig/orchestrator/private"
)

const (
	// fullMode is of a segment that nothing is appended to any more.
	fullMode fs.FileMode = 0o400

	lockFile   = "lock"
	segmentPre = "audit-"
	segmentEnd = ".jsonl"
)

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
	f, err := private.Read(filepath.Join(dir, segmentName(index)))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size < 0 {
		return io.ReadAll(f)
	}
	return io.ReadAll(io.LimitReader(f, size))
}
