//go:build unix

package main

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// writable asks whether this process may make files in dir, without making one.
func writable(dir string) error {
	if err := unix.Faccessat(unix.AT_FDCWD, dir, unix.R_OK|unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return &fs.PathError{Op: "access", Path: dir, Err: err}
	}
	return nil
}

func ownedByMe(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}

// giveDirectory is the command with which an administrator makes dir for this user.
func giveDirectory(dir string) string {
	return fmt.Sprintf("sudo install -d -m 700 -o %d -g %d %s", os.Geteuid(), os.Getegid(), quote(dir))
}
