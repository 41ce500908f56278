package workspace

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
)

// removals bounds how many entries one call looks at, so that code that makes
// files as fast as they are removed cannot keep brig busy for ever.
const removals = 1 << 22

// removeDepth is how deep a removal goes before it moves what is below up: each
// level holds two descriptors.
const removeDepth = 32

// Remove removes a file, a link (not what it points to), a special file or a
// directory with everything in it, and what it removed does not come back after a power cut. What is not there is fs.ErrNotExist.
//
// It copes with what os.RemoveAll does not: directories that code made
// unreadable, and ones nested deeper than this process has file descriptors for.
func (w *Workspace) Remove(name string) error { return w.RemoveIf(name, nil) }

// RemoveIf is Remove under a condition: nothing is removed unless allow says nil
// about what stands there.
func (w *Workspace) RemoveIf(name string, allow func(Entry) error) error {
	clean, err := clean("remove", name)
	if err != nil {
		return err
	}
	parent, base := path.Split(clean)
	dir, err := openSub(w.root, path.Clean("./"+parent))
	if err != nil {
		return w.fail("remove", clean, err)
	}
	defer dir.Close()
	err = w.remove(dir, clean, base, allow)
	if err == nil {
		err = syncDir(dir)
	}
	return w.fail("remove", clean, err)
}

func (w *Workspace) remove(dir *os.Root, clean, base string, allow func(Entry) error) error {
	if allow != nil {
		w.ledger.settling.Lock() // no put makes another file final meanwhile
		defer w.ledger.settling.Unlock()
		info, err := dir.Lstat(base)
		if err != nil {
			return err
		}
		if err := allow(entryOf(found{path: clean, info: info})); err != nil {
			return err
		}
	}
	r := remover{top: dir, into: base, left: removals}
	return r.entry(dir, base, base, 0)
}

// Clear removes everything in the workspace and leaves an empty directory. It
// goes on after a failure and returns the first one.
func (w *Workspace) Clear() error {
	if info, err := w.root.Stat("."); err == nil && info.Mode().Perm()&0o700 != 0o700 {
		_ = w.root.Chmod(".", info.Mode().Perm()|0o700) // where it fails, what follows says why
	}
	r := remover{top: w.root, left: removals}
	return w.fail("remove", "", r.content(w.root, "", 0))
}

// remover takes a tree apart with a bounded number of open directories: what is
// too deep is moved up into the directory into, whose turn comes again.
type remover struct {
	top  *os.Root
	into string // below top; empty means top itself
	left int
}

// entry removes base, which stands in dir and has the name full below top.
func (r *remover) entry(dir *os.Root, full, base string, depth int) error {
	info, err := dir.Lstat(base)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return dir.Remove(base)
	}
	if info.Mode().Perm()&0o700 != 0o700 {
		_ = dir.Chmod(base, 0o700) // where it fails, what follows says why
	}
	if depth >= removeDepth {
		return r.top.Rename(full, path.Join(r.into, ".brig-rm-"+random()))
	}
	sub, err := openSub(dir, base)
	if err != nil {
		return err
	}
	defer sub.Close()
	if now, err := sub.Stat("."); err != nil || !os.SameFile(info, now) {
		return errors.New("the directory changed while it was removed")
	}
	if err := r.content(sub, full, depth); err != nil {
		return err
	}
	return dir.Remove(base)
}

// content removes everything in dir. It reads the directory again until it is
// empty or a whole reading brought nothing more, because removing entries makes
// some systems skip others.
func (r *remover) content(dir *os.Root, full string, depth int) error {
	for {
		gone, first := r.reading(dir, full, depth)
		if r.left <= 0 {
			return &Error{Op: "remove", Name: full, Kind: ErrTooMany}
		}
		if gone == 0 {
			return first
		}
	}
}

// reading goes once through dir; first is the first error it met.
func (r *remover) reading(dir *os.Root, full string, depth int) (gone int, first error) {
	f, err := dir.Open(".")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for r.left > 0 {
		names, err := f.Readdirnames(chunk)
		r.left -= len(names)
		for _, base := range names {
			switch err := r.entry(dir, path.Join(full, base), base, depth+1); {
			case err == nil:
				gone++
			case first == nil && !errors.Is(err, fs.ErrNotExist):
				first = err
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, err
		}
	}
	return gone, first
}
