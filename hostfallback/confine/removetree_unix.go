//go:build linux || darwin

package confine

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// removeDepth is how deep a removal goes before it moves what is below up to the
// top: each level holds a descriptor.
const removeDepth = 32

// RemoveTree removes dir and everything below it, also directories that their
// maker has closed to everybody, and at any depth: neither descriptors nor memory
// grow with it. It follows no link. Nothing may run in the tree any more.
func RemoveTree(dir string) error {
	parent, err := os.Open(filepath.Dir(dir))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = parent.Close() }() // opened for reading
	name := filepath.Base(dir)
	var st unix.Stat_t
	switch err := unix.Fstatat(int(parent.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); {
	case errors.Is(err, unix.ENOENT):
		return nil
	case err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR:
		err = unix.Unlinkat(int(parent.Fd()), name, 0)
		return wrapRemoval(name, err)
	case err != nil:
		return wrapRemoval(name, err)
	}
	top, err := enter(parent, name, st)
	if err != nil {
		return wrapRemoval(name, err)
	}
	err = removal{top}.content(top, 0)
	if err = errors.Join(err, top.Close()); err != nil {
		return err
	}
	return wrapRemoval(name, unix.Unlinkat(int(parent.Fd()), name, unix.AT_REMOVEDIR))
}

func wrapRemoval(name string, err error) error {
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return fmt.Errorf("remove %q: %w", name, err) // a single name: never a long path
}

// removal takes a tree apart whose top is open.
type removal struct{ top *os.File }

// content removes everything in dir. It reads the directory again until a reading
// brings nothing more, because what was too deep turns up in the top meanwhile.
func (r removal) content(dir *os.File, depth int) error {
	for {
		if _, err := dir.Seek(0, io.SeekStart); err != nil {
			return err
		}
		gone, first := 0, error(nil)
		for {
			names, err := dir.Readdirnames(512)
			for _, name := range names {
				switch err := r.entry(dir, name, depth); {
				case err == nil:
					gone++
				case first == nil:
					first = err
				}
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
		}
		if gone == 0 {
			return first
		}
	}
}

func (r removal) entry(dir *os.File, name string, depth int) error {
	fd := int(dir.Fd())
	var st unix.Stat_t
	if err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return wrapRemoval(name, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return wrapRemoval(name, unlink(fd, name, 0))
	}
	sub, err := enter(dir, name, st)
	if err != nil {
		return wrapRemoval(name, err)
	}
	defer func() { _ = sub.Close() }() // opened for reading
	if depth >= removeDepth {
		return wrapRemoval(name, unix.Renameat(fd, name, int(r.top.Fd()), ".brig-rm-"+rand.Text()))
	}
	if err := r.content(sub, depth+1); err != nil {
		return err
	}
	return wrapRemoval(name, unlink(fd, name, unix.AT_REMOVEDIR))
}

// unlink removes a name, also one with a flag against that.
func unlink(parent int, name string, flags int) error {
	err := unix.Unlinkat(parent, name, flags)
	if errors.Is(err, unix.EPERM) && unlock(parent, name) == nil {
		err = unix.Unlinkat(parent, name, flags)
	}
	return err
}

// enter opens a directory, for its owner again if code has closed it.
func enter(parent *os.File, name string, st unix.Stat_t) (*os.File, error) {
	if st.Mode&0o700 != 0o700 {
		// Where it fails, the opening or what follows says why.
		_ = reopen(int(parent.Fd()), name, uint32(st.Mode)|0o700)
	}
	return openDir(int(parent.Fd()), name)
}
