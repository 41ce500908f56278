//go:build linux || darwin

package confine

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// diskUse sums the blocks of everything below dir. It follows no link and opens
// nothing but directories, because whoever fills the tree may be hostile. Where
// something lies beyond the bounds or cannot be looked at, unseen says so: nothing
// is left out in silence.
func diskUse(dir string) (bytes int64, unseen string) {
	f, err := openDir(unix.AT_FDCWD, dir)
	if err != nil {
		return 0, cannot(err)
	}
	defer func() { _ = f.Close() }() // opened for reading
	u := usage{left: DiskEntries}
	u.add(f, 0)
	return u.bytes, u.unseen
}

func cannot(err error) string {
	if errno := unix.Errno(0); errors.As(err, &errno) {
		return "a directory could not be looked at (" + unix.ErrnoName(errno) + ")"
	}
	return "a directory could not be looked at"
}

type usage struct {
	bytes  int64
	left   int
	unseen string
}

func (u *usage) add(dir *os.File, depth int) {
	for {
		names, err := dir.Readdirnames(512)
		for _, name := range names {
			if u.left--; u.left < 0 {
				u.unseen = fmt.Sprintf("there are more than %d files and directories", DiskEntries)
			}
			if u.unseen != "" {
				return
			}
			u.entry(dir, name, depth)
		}
		if err != nil {
			u.failed(err)
			return
		}
	}
}

// failed notes what keeps the walk from something that is there. The end of a
// directory does not, and neither does what went away or became something else.
func (u *usage) failed(err error) {
	for _, harmless := range []error{io.EOF, unix.ENOENT, unix.ENOTDIR, unix.ELOOP} {
		if errors.Is(err, harmless) {
			return
		}
	}
	u.unseen = cannot(err)
}

func (u *usage) entry(dir *os.File, name string, depth int) {
	var st unix.Stat_t
	err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.EACCES) { // the directory was closed again meanwhile
		if err = unlocked(dir); err == nil {
			err = unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
		}
	}
	if err != nil {
		u.failed(err)
		return
	}
	u.bytes += st.Blocks * 512
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return
	}
	if depth >= DiskDepth {
		u.unseen = fmt.Sprintf("directories are nested deeper than %d", DiskDepth)
		return
	}
	sub, err := openDir(int(dir.Fd()), name)
	if err != nil {
		u.failed(err)
		return
	}
	defer func() { _ = sub.Close() }() // opened for reading
	u.add(sub, depth+1)
}

// openDir opens a directory so that all in it can be looked at, also where its owner
// has closed it: brig is the same user.
func openDir(parent int, name string) (*os.File, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(parent, name, flags, 0)
	if errors.Is(err, unix.EACCES) {
		var st unix.Stat_t
		if unix.Fstatat(parent, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && reopen(parent, name, uint32(st.Mode)) == nil {
			fd, err = unix.Openat(parent, name, flags, 0)
		}
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// unlocked lets the owner of an open directory read it and pass through it.
func unlocked(dir *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return err
	}
	return unix.Fchmod(int(dir.Fd()), uint32(st.Mode)&0o7777|0o500)
}
