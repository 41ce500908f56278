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
	whole bool // see whole
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

// whole is a walk over everything that leaves nothing out for its depth:
// directories nested deeper than MaxNesting end it with ErrTooDeep. What it finds
// has its last name only for a path, because whole paths of deep trees are long.
func (w *Workspace) whole(op string, visit func(found)) error {
	k := &walker{w: w, op: op, left: w.walks, whole: true, visit: visit}
	return k.dir(w.root, "", 0)
}

// dir visits the entries of an open directory, and what is in its directories
// after it has closed what it reads them by: a level of a walk holds one
// descriptor, not two. The error is one that ends the walk.
func (k *walker) dir(dir *os.Root, name string, depth int) error {
	below, err := k.level(dir, name)
	for _, base := range below {
		full := k.join(name, base)
		if errors.Is(err, ErrTooMany) || errors.Is(err, ErrTooDeep) { // the walk is over; these were met before
			k.met(dir, full, base, err)
			continue
		}
		if e := k.below(dir, full, base, depth+1); e != nil {
			err = e
		}
	}
	return err
}

// met visits a directory that the walk comes to no more.
func (k *walker) met(dir *os.Root, full, base string, why error) {
	if info, err := dir.Lstat(base); err == nil && !k.whole {
		k.visit(found{path: full, info: info, problem: why})
	}
}

func (k *walker) join(name, base string) string {
	if k.whole {
		return base
	}
	return path.Join(name, base)
}

// level visits what is no directory and names the directories.
func (k *walker) level(dir *os.Root, name string) (below []string, err error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, k.w.fail(k.op, name, err)
	}
	defer f.Close()
	for {
		names, err := f.Readdirnames(chunk)
		for _, base := range names {
			if k.left == 0 {
				return below, &Error{Op: k.op, Kind: ErrTooMany, Why: fmt.Sprintf("it holds more than %d files", k.w.walks)}
			}
			k.left--
			info, err := dir.Lstat(base)
			switch {
			case err != nil: // it vanished, or code is racing us
			case info.IsDir():
				below = append(below, base)
			default:
				k.visit(found{path: k.join(name, base), info: info})
			}
		}
		if errors.Is(err, io.EOF) {
			return below, nil
		}
		if err != nil {
			return below, k.w.fail(k.op, name, err)
		}
	}
}

// below visits what was a directory a moment ago, and what is in it.
func (k *walker) below(dir *os.Root, full, base string, depth int) error {
	info, err := dir.Lstat(base)
	if err != nil {
		return nil // it vanished, or code is racing us
	}
	switch {
	case !info.IsDir():
		k.visit(found{path: full, info: info})
		return nil
	case k.whole && depth > MaxNesting:
		return &Error{Op: k.op, Kind: ErrTooDeep, Why: nestedTooDeep()}
	case !k.whole && depth >= MaxDepth:
		k.visit(found{path: full, info: info, problem: tooDeep()})
		return nil
	}
	err = k.down(dir, full, base, info, depth)
	if errors.Is(err, ErrTooMany) || errors.Is(err, ErrTooDeep) {
		return err
	}
	k.visit(found{path: full, info: info, problem: err})
	return nil
}

func nestedTooDeep() string {
	return fmt.Sprintf("directories are nested deeper than %d", MaxNesting)
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
