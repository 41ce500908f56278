package workspace

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
)

// chunk is how many names of a directory are read at a time: a directory of
// millions of files costs time, not memory.
const chunk = 512

// found is one entry that a walk met.
type found struct {
	path    string
	info    fs.FileInfo // what stands at path; a link is the link itself
	problem error       // a directory that could not be read to its end
}

// walker visits everything below a directory without following any link. It uses
// no fs.WalkDir: that reads a directory whole, and looks names up by their path again.
type walker struct {
	w     *Workspace
	op    string
	left  int
	visit func(found)
}

// walk visits what is below prefix (empty means everything), in no order.
// ErrTooMany ends it after MaxEntries entries. An entry that vanishes is left
// out; a directory that cannot be read is visited with a problem.
func (w *Workspace) walk(op, prefix string, visit func(found)) error {
	dir, err := openSub(w.root, prefix)
	if err != nil {
		return w.fail(op, prefix, err)
	}
	defer dir.Close()
	k := &walker{w: w, op: op, left: w.walks, visit: visit}
	depth := 0
	if prefix != "" {
		depth = parts(prefix)
	}
	return k.dir(dir, prefix, depth)
}

// dir visits the entries of an open directory. The error is one that ends the walk.
func (k *walker) dir(dir *os.Root, name string, depth int) error {
	f, err := dir.Open(".")
	if err != nil {
		return k.w.fail(k.op, name, err)
	}
	defer f.Close()
	for {
		names, err := f.Readdirnames(chunk)
		for _, base := range names {
			if err := k.entry(dir, path.Join(name, base), base, depth+1); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return k.w.fail(k.op, name, err)
		}
	}
}

func (k *walker) entry(dir *os.Root, full, base string, depth int) error {
	if k.left == 0 {
		return &Error{Op: k.op, Kind: ErrTooMany, Why: fmt.Sprintf("it holds more than %d files", k.w.walks)}
	}
	k.left--
	info, err := dir.Lstat(base)
	if err != nil {
		return nil // it vanished, or code is racing us
	}
	if !info.IsDir() {
		k.visit(found{path: full, info: info})
		return nil
	}
	if depth >= MaxDepth {
		k.visit(found{path: full, info: info, problem: tooDeep()})
		return nil
	}
	err = k.down(dir, full, base, info, depth)
	if errors.Is(err, ErrTooMany) {
		return err
	}
	k.visit(found{path: full, info: info, problem: err})
	return nil
}

func tooDeep() error {
	return fmt.Errorf("what is in it is not looked at: its files are more than %d parts deep", MaxDepth)
}

// down walks the directory base, provided that what opens is what was looked at:
// Root follows links, and a name may have become one.
func (k *walker) down(dir *os.Root, full, base string, info fs.FileInfo, depth int) error {
	sub, err := openSub(dir, base)
	if err != nil {
		return k.w.fail(k.op, full, err)
	}
	defer sub.Close()
	if now, err := sub.Stat("."); err != nil || !os.SameFile(info, now) {
		return errors.New("the directory changed while it was read")
	}
	return k.dir(sub, full, depth)
}

func parts(name string) int {
	n := 1
	for i := range len(name) {
		if name[i] == '/' {
			n++
		}
	}
	return n
}
