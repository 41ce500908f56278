//go:build unix

package server

import (
	"fmt"
	"os"
	"syscall"
)

// ownPlace makes sure that the runtime directory is this user's alone, and that
// nobody else chose which directory that is.
func ownPlace(dir string) error {
	link, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("look at the runtime directory: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("look at the runtime directory: %w", err)
	}
	for _, i := range []os.FileInfo{link, info} {
		if st, ok := i.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() {
			return fmt.Errorf("the runtime directory %s is not this user's, or a link of somebody else; set XDG_RUNTIME_DIR to a directory of your own", dir)
		}
	}
	if !info.IsDir() || info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("others can get at the runtime directory %s (mode %#o): chmod 700 %s", dir, info.Mode().Perm(), dir)
	}
	return nil
}
