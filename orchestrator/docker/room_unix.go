//go:build linux || darwin

package docker

import "syscall"

// freeRoom is how many bytes are free on the file system of a directory; -1: not known.
func freeRoom(directory string) int64 {
	var room syscall.Statfs_t
	if err := syscall.Statfs(directory, &room); err != nil {
		return -1
	}
	return int64(room.Bfree) * int64(room.Bsize) //nolint:unconvert // the types differ between systems
}
