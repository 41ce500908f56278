package confine

import "golang.org/x/sys/unix"

// reopen lets the owner read a directory again that code has closed, so that
// nothing can be piled up unseen. It works on the very name and follows no link.
func reopen(parent int, name string, mode uint32) error {
	return unix.Fchmodat(parent, name, mode&0o7777|0o500, unix.AT_SYMLINK_NOFOLLOW)
}

// unlock takes the flags away that let not even the owner change or remove a file.
func unlock(parent int, name string) error {
	fd, err := unix.Openat(parent, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }() // opened for reading
	return unix.Fchflags(fd, 0)
}
