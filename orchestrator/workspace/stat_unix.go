//go:build linux || darwin

package workspace

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// openFlags keep a named pipe, a leased file and a terminal from doing anything to us.
const openFlags = syscall.O_NONBLOCK | syscall.O_NOCTTY

// links is the number of names of an opened file.
func links(_ *os.File, info fs.FileInfo) (uint64, error) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	return uint64(st.Nlink), nil
}

// allocated is the room that a file takes on the disk.
func allocated(info fs.FileInfo) int64 {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return info.Size()
	}
	return st.Blocks * 512
}

func nodeOf(info fs.FileInfo) node {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return node{}
	}
	return node{uint64(st.Dev), st.Ino, changeTime(st)}
}

// shared reports whether the file has other names, so that it must be counted once only.
func shared(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Nlink > 1
}

// giveAway is the owner of a directory that is not ours, if we may give files away.
func giveAway(dir fs.FileInfo) (uid, gid int, ok bool) {
	st, is := dir.Sys().(*syscall.Stat_t)
	if !is {
		return 0, 0, false
	}
	return int(st.Uid), int(st.Gid), os.Geteuid() == 0 && st.Uid != 0
}

// classify gives the errors of the operating system the meaning that callers branch on.
func classify(err error) (why string, kind error) {
	switch {
	case errors.Is(err, syscall.ENXIO), errors.Is(err, syscall.EOPNOTSUPP), errors.Is(err, syscall.ENODEV):
		return "it is a socket or a device, not a regular file", ErrNotRegular
	case errors.Is(err, syscall.EISDIR):
		return "it is a directory, not a regular file", ErrNotRegular
	case errors.Is(err, syscall.ENOTDIR):
		return "a part of the name is not a directory", nil
	case errors.Is(err, syscall.ELOOP):
		return "too many symbolic links", nil
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EBUSY), errors.Is(err, syscall.ETXTBSY):
		return "another program holds it", ErrBusy
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "", ErrNoSpace
	case errors.Is(err, syscall.EFBIG):
		return "it is larger than the file system takes", ErrTooLarge
	case errors.Is(err, syscall.ENAMETOOLONG):
		return "the name is too long", ErrName
	case errors.Is(err, syscall.EILSEQ), errors.Is(err, syscall.EINVAL):
		return "the file system does not take that name", ErrName
	}
	return "", nil
}

// dirsSync: a directory can be opened and synced as a file.
const dirsSync = true
