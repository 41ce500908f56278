//go:build unix

package config

import (
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"
)

// openFlags keep a named pipe in the file's place from hanging us.
const openFlags = syscall.O_NONBLOCK | syscall.O_NOCTTY

// exposed says why somebody besides its owner and root can change a file or what
// stands in a directory, and which command ends that; empty where nobody can. In
// a directory with the sticky bit only owners replace files.
func exposed(path string, info fs.FileInfo) (text, remedy string) {
	if uid, ok := ownerOf(info); !ok || (uid != 0 && uid != os.Geteuid()) {
		return fmt.Sprintf("it belongs to user %d", uid), fmt.Sprintf("run brig as that user, or: sudo chown %d %s", os.Geteuid(), shellWord(path))
	}
	sticky := info.IsDir() && info.Mode()&fs.ModeSticky != 0
	if openTo(info) != 0 && !sticky {
		return "users besides its owner can write it", "chmod go-w " + shellWord(path)
	}
	return "", ""
}

// openTo is the permission bits with which users besides the owner can write. A
// group of the user's own has nobody else in it: systems that give everybody one
// have files writable by it everywhere. It bears the user's number; root's does
// not count, because on some systems it has members.
func openTo(info fs.FileInfo) fs.FileMode {
	bits := info.Mode().Perm() & 0o022
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Gid == st.Uid && st.Gid != 0 && int(st.Gid) == os.Getgid() {
		bits &^= 0o020
	}
	return bits
}

func ownerOf(info fs.FileInfo) (int, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1, false
	}
	return int(st.Uid), true
}

// private says why a directory does not belong to this user alone.
func private(path string, info fs.FileInfo) (text, remedy string) {
	uid, _ := ownerOf(info)
	switch {
	case uid != os.Geteuid():
		return fmt.Sprintf("it belongs to user %d", uid), "run brig as that user, or move the directory away"
	case openTo(info) != 0:
		return "users besides its owner can write it", "chmod 700 " + shellWord(path)
	}
	return "", ""
}

// userName distinguishes directories of several users below one place.
func userName() string { return strconv.Itoa(os.Geteuid()) }
