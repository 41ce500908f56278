//go:build unix

package private

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// notOurs says why a file or directory is not this user's alone; most is the mode it
// may have. Empty: it is.
func notOurs(info fs.FileInfo, most fs.FileMode) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok || int(st.Uid) != os.Geteuid():
		return "it belongs to another user"
	case info.Mode().Perm()&^most != 0:
		return fmt.Sprintf("its mode is %#o, so that others can get at it", info.Mode().Perm())
	}
	return ""
}

// links counts the names of a file.
func links(info fs.FileInfo) int {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 1
	}
	return int(st.Nlink)
}

// SyncDir brings the names in a directory to the disk: what was made in it is there
// after a power cut.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(flush(d), d.Close())
}
