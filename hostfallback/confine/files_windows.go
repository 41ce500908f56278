package confine

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
)

// diskUse sums the sizes of everything below dir and follows no link. What lies
// beyond the bounds is told by unseen.
func diskUse(dir string) (bytes int64, unseen string) {
	left := DiskEntries
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // it has just gone
		}
		if left--; left < 0 {
			unseen = fmt.Sprintf("there are more than %d files and directories", DiskEntries)
			return fs.SkipAll
		}
		if strings.Count(path[len(dir):], `\`) > DiskDepth {
			unseen = fmt.Sprintf("directories are nested deeper than %d", DiskDepth)
			return fs.SkipAll
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			bytes += info.Size()
		}
		return nil
	})
	return bytes, unseen
}

func version(parts ...uint32) string {
	words := make([]string, len(parts))
	for i, p := range parts {
		words[i] = strconv.FormatUint(uint64(p), 10)
	}
	return strings.Join(words, ".")
}

// names are the names of the variables of an environment.
func names(env []string) []string {
	var out []string
	for _, variable := range env {
		name, _, _ := strings.Cut(variable, "=")
		out = append(out, name)
	}
	return out
}
