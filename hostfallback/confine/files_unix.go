//go:build linux || darwin

package confine

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// diskUse sums the blocks of everything below dir. It follows no link and opens
// nothing but directories, because whoever fills the tree may be hostile. Where
// something lies beyond the bounds, unseen says so: nothing is left out in silence.
func diskUse(dir string) (bytes int64, unseen string) {
	f, err := os.Open(dir)
	if err != nil {
		return 0, ""
	}
	defer func() { _ = f.Close() }() // opened for reading
	u := usage{left: DiskEntries}
	u.add(f, 0)
	return u.bytes, u.unseen
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
		if err != nil { // io.EOF, or a directory that vanished
			return
		}
	}
}

func (u *usage) entry(dir *os.File, name string, depth int) {
	var st unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
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
	if errors.Is(err, unix.EACCES) && reopen(int(dir.Fd()), name, uint32(st.Mode)) == nil {
		sub, err = openDir(int(dir.Fd()), name)
	}
	if err != nil {
		return
	}
	defer func() { _ = sub.Close() }() // opened for reading
	u.add(sub, depth+1)
}

func openDir(parent int, name string) (*os.File, error) {
	fd, err := unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}
