package workspace

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// Put writes r into the file name and returns how many bytes it wrote. Readers see
// the old content or the new one, never a part. Missing parent directories are
// made. A link at the end of name is replaced, not followed; a directory or a
// special file there is ErrNotRegular. Of mode only the permission bits count; 0 means 0600.
//
// The bytes count against Limits.File and, on top of everything that is there
// (the file to be replaced included), against Limits.Bytes.
func (w *Workspace) Put(name string, r io.Reader, mode fs.FileMode) (int64, error) {
	clean, err := cleanNew("put", name)
	if err != nil {
		return 0, err
	}
	return w.put(clean, r, mode)
}

// PutAny is Put for a file whose name code has chosen: any name that this system
// takes, where Put takes only those that every system can hold.
func (w *Workspace) PutAny(name string, r io.Reader, mode fs.FileMode) (int64, error) {
	clean, err := clean("put", name)
	if err != nil {
		return 0, err
	}
	return w.put(clean, r, mode)
}

func (w *Workspace) put(clean string, r io.Reader, mode fs.FileMode) (int64, error) {
	if mode &= fs.ModePerm; mode == 0 {
		mode = 0o600
	}
	m, err := w.meter(clean)
	if err != nil {
		return 0, err
	}
	defer m.refund()
	h, err := w.heir()
	if err != nil {
		return 0, w.fail("put", clean, err)
	}
	parent, base := path.Split(clean)
	parent = strings.TrimSuffix(parent, "/")
	if err := w.makeParents(parent, mode, h); err != nil {
		return 0, err
	}
	dir, err := openSub(w.root, parent)
	if err != nil {
		return 0, w.fail("put", clean, err)
	}
	defer dir.Close()
	p := placing{w: w, op: "put", name: clean, dir: dir, base: base, mode: mode, heir: h, meter: m}
	if err := p.place(func(f *os.File) error { return m.copy(f, r) }); err != nil {
		return 0, err
	}
	return m.own, nil
}

// makeParents makes every missing directory of parent, as open as a file of mode is.
func (w *Workspace) makeParents(parent string, mode fs.FileMode, h heir) error {
	if parent == "" {
		return nil
	}
	read := mode & 0o044
	perm := 0o700 | read | read>>2
	made := ""
	for part := range strings.SplitSeq(parent, "/") {
		made = path.Join(made, part)
		err := w.root.Mkdir(made, perm)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil {
			err = w.adopt(made, perm, h)
		}
		if err != nil {
			return w.fail("put", made, err)
		}
	}
	return nil
}

// adopt gives a directory that was just made its mode, whatever the umask is,
// and its owner. It acts on a handle: code may have put something else there.
func (w *Workspace) adopt(name string, perm fs.FileMode, h heir) error {
	dir, err := openSub(w.root, name)
	if err != nil {
		return err
	}
	defer dir.Close()
	f, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	if err := h.adopt(f); err != nil {
		return err
	}
	return f.Chmod(perm)
}
