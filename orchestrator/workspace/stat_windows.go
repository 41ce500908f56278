package workspace

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// openFlags is empty: what would block an open on other systems has no place in
// a directory here.
const openFlags = 0

const (
	errSharingViolation = syscall.Errno(32)
	errHandleDiskFull   = syscall.Errno(39)
	errDiskFull         = syscall.Errno(112)
	errInvalidName      = syscall.Errno(123)
)

// links is the number of names of an opened file.
func links(f *os.File, _ fs.FileInfo) (uint64, error) {
	var info syscall.ByHandleFileInformation
	if err := syscall.GetFileInformationByHandle(syscall.Handle(f.Fd()), &info); err != nil {
		return 0, err
	}
	return uint64(info.NumberOfLinks), nil
}

// allocated is the apparent size: the room on the disk would cost a handle per file.
func allocated(info fs.FileInfo) int64 { return info.Size() }

// nodeOf knows nothing without a handle: size and modification time have to do.
func nodeOf(fs.FileInfo) node { return node{} }

// shared is never known without a handle; a file with two names counts twice.
func shared(fs.FileInfo) bool { return false }

// giveAway: files belong to whoever makes them.
func giveAway(fs.FileInfo) (uid, gid int, ok bool) { return 0, 0, false }

// classify gives the errors of the operating system the meaning that callers branch on.
func classify(err error) (why string, kind error) {
	switch {
	case errors.Is(err, errSharingViolation):
		return "another program holds it", ErrBusy
	case errors.Is(err, errDiskFull), errors.Is(err, errHandleDiskFull):
		return "", ErrNoSpace
	case errors.Is(err, errInvalidName):
		return "the file system does not take that name", ErrName
	case errors.Is(err, syscall.EISDIR):
		return "it is a directory, not a regular file", ErrNotRegular
	case errors.Is(err, syscall.ENOTDIR):
		return "a part of the name is not a directory", nil
	}
	return "", nil
}

// dirsSync: the file system keeps its directories by itself.
const dirsSync = false

// tick: times here are as fine as the clock.
func tick() int64 { return 0 }
