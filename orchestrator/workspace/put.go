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
// the old content or the new one, never a part, and when Put returns the new one is
// on the disk, whatever happens to the machine then. Missing parent directories are
// made. A link at the end of name is replaced, not followed; a directory or a
// special file there is ErrNotRegular. Of mode only the permission bits count; 0 means 0600.
//
// The bytes count against Limits.File and, on top of everything that is there
// (the file to be replaced included), against Limits.Bytes.
func (w *Workspace) Put(name string, r io.Reader, mode fs.FileMode) (int64, error) {
	written, err := w.PutIf(name, r, mode, nil)
	return written.Bytes, err
}

// Written is what became of a put.
type Written struct {
	Bytes    int64
	Entry    Entry // the file; empty where code has taken it away already
	Replaced bool  // there was something before
}

// PutIf is Put under a condition: nothing is written unless allow says nil about
// what stands at the name, nil for nothing. It is asked before r is read, and again in the
// moment before the file becomes final, between which no other put of this
// Workspace does. What code does in that moment is not seen.
func (w *Workspace) PutIf(name string, r io.Reader, mode fs.FileMode, allow func(*Entry) error) (Written, error) {
	clean, err := cleanNew("put", name)
	if err != nil {
		return Written{}, err
	}
	fresh := w.freshDirs()
	written, err := w.put(clean, r, mode, putting{allow: allow, dirs: fresh})
	if err == nil {
		err = w.fail("put", clean, fresh.sync())
	}
	return written, err
}

// PutAny is Put for a file whose name code has chosen: any name that this system
// takes, where Put takes only those that every system can hold. A power cut may
// undo it.
func (w *Workspace) PutAny(name string, r io.Reader, mode fs.FileMode) (int64, error) {
	clean, err := clean("put", name)
	if err != nil {
		return 0, err
	}
	written, err := w.put(clean, r, mode, putting{})
	return written.Bytes, err
}

// putting is how a put differs from another.
type putting struct {
	allow func(*Entry) error // nil: whatever is there is replaced
	dirs  *dirs              // those that have to be synced after it; nil: none
}

func (w *Workspace) put(clean string, r io.Reader, mode fs.FileMode, how putting) (Written, error) {
	if mode &= fs.ModePerm; mode == 0 {
		mode = 0o600
	}
	m, err := w.meter(clean)
	if err != nil {
		return Written{}, err
	}
	defer m.refund()
	h, err := w.heir()
	if err != nil {
		return Written{}, w.fail("put", clean, err)
	}
	parent, base := path.Split(clean)
	parent = strings.TrimSuffix(parent, "/")
	if how.allow != nil {
		if err := w.allowed(clean, how.allow); err != nil {
			return Written{}, err
		}
	}
	if err := w.makeParents(parent, mode, h, how.dirs); err != nil {
		return Written{}, err
	}
	dir, err := openSub(w.root, parent)
	if err != nil {
		return Written{}, w.fail("put", clean, err)
	}
	defer dir.Close()
	p := placing{w: w, op: "put", name: clean, dir: dir, base: base, mode: mode, heir: h, meter: m, allow: how.allow}
	if err := p.place(func(f *os.File) error { return m.copy(f, r) }); err != nil {
		return Written{}, err
	}
	how.dirs.changed(parent)
	written := Written{Bytes: m.own, Replaced: p.replaced}
	if info, err := dir.Lstat(base); err == nil {
		written.Entry = entryOf(found{path: clean, info: info})
	}
	return written, nil
}

// allowed asks about what stands at a name before anything is made for a put.
func (w *Workspace) allowed(clean string, allow func(*Entry) error) error {
	info, err := w.root.Lstat(clean)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return allow(nil)
	case err != nil:
		return w.fail("put", clean, err)
	}
	e := entryOf(found{path: clean, info: info})
	return allow(&e)
}

// makeParents makes every missing directory of parent, as open as a file of mode is.
func (w *Workspace) makeParents(parent string, mode fs.FileMode, h heir, fresh *dirs) error {
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
			fresh.changed(strings.TrimSuffix(path.Dir(made), "."))
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
