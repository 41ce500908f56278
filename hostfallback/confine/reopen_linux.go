package confine

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// reopen lets the owner read a directory again that code has closed, so that
// nothing can be piled up unseen. It works on the very directory and never on
// what a link put in its place names.
func reopen(parent int, name string, mode uint32) error {
	fd, err := unix.Openat(parent, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	dir := os.NewFile(uintptr(fd), name)
	defer func() { _ = dir.Close() }() // a path only
	return unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), mode&0o7777|0o500)
}

// unlock: flags of that kind are for root alone here.
func unlock(int, string) error { return unix.EPERM }
