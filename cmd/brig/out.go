package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"brig/orchestrator/workspace"
)

// outDir is the directory of --out. Code chooses the names of what comes back,
// so nothing that is there already is replaced unless --overwrite says so.
type outDir struct {
	dir       string
	overwrite bool
}

// openOut makes the directory and tries it, so that nobody finds out after a
// long run that there is no place for its results. An empty dir gives nil.
func openOut(dir string, overwrite bool) (*outDir, error) {
	if dir == "" {
		if overwrite {
			return nil, usage("brig run --out DIR --overwrite", "--overwrite is about the files of --out, which is not given")
		}
		return nil, nil
	}
	const hint = "name another directory: brig run --out DIR"
	if err := os.MkdirAll(dir, 0o777); err != nil { // less the umask, as mkdir(1)
		return nil, input(hint, "--out %s could not be made: %s", dir, because(err))
	}
	probe, err := os.CreateTemp(dir, ".brig-*")
	if err != nil {
		return nil, input(hint, "--out %s cannot be written: %s", dir, because(err))
	}
	if err := errors.Join(probe.Close(), os.Remove(probe.Name())); err != nil {
		return nil, input(hint, "--out %s cannot be written: %s", dir, because(err))
	}
	return &outDir{dir, overwrite}, nil
}

// brought is what came back from a workspace.
type brought struct {
	files []string // paths on this machine
	left  []stayed
}

// stayed is something that the run made and that did not come back.
type stayed struct {
	name, why string
	// lost is a file, or may hold some. Links and special files never come back;
	// they are named, and nothing else is wrong.
	lost   bool
	exists bool // only because something is there already
}

func (s stayed) String() string { return s.name + ": " + s.why }

// bring copies every regular file that was made or changed since before. What
// cannot be brought back is named with the reason and keeps nothing else from
// coming. The files in taken came from the same run another way and are never replaced.
func (o *outDir) bring(ctx context.Context, w *workspace.Workspace, before workspace.Snapshot, taken []string) brought {
	var b brought
	changed, err := w.Changed(before)
	if err != nil {
		b.left = append(b.left, stayed{name: "all files", why: reasonOf(err), lost: true})
		return b
	}
	root, err := os.OpenRoot(o.dir)
	if err != nil {
		err = fmt.Errorf("%s cannot be opened: %s", o.dir, because(err))
	} else {
		defer root.Close()
	}
	for _, e := range changed {
		if e.Kind == workspace.Dir {
			if e.Problem != "" {
				b.left = append(b.left, stayed{name: e.Path + "/", why: e.Problem, lost: true})
			}
			continue
		}
		dest := filepath.Join(o.dir, filepath.FromSlash(e.Path))
		failed := cmp.Or(err, context.Cause(ctx))
		if failed == nil {
			failed = o.copy(w, root, e.Path, dest, slices.Contains(taken, dest))
		}
		if failed == nil {
			b.files = append(b.files, dest)
			continue
		}
		b.left = append(b.left, stayed{
			name: e.Path, why: reasonOf(failed), lost: e.Kind == workspace.File, exists: errors.Is(failed, fs.ErrExist),
		})
	}
	return b
}

// copy brings one file back.
func (o *outDir) copy(w *workspace.Workspace, root *os.Root, name, dest string, taken bool) error {
	if parent := path.Dir(name); parent != "." {
		if err := root.MkdirAll(filepath.FromSlash(parent), 0o777); err != nil {
			return o.obstacle(root, parent, err)
		}
	}
	if o.overwrite && !taken {
		return w.CopyOut(name, dest)
	}
	err := w.CopyOutNew(name, dest)
	if errors.Is(err, fs.ErrExist) && same(w, name, dest) {
		return nil
	}
	return err
}

// obstacle finds what stands in the way of a directory that could not be made.
func (o *outDir) obstacle(root *os.Root, parent string, err error) error {
	at := ""
	for _, part := range strings.Split(parent, "/") {
		at = path.Join(at, part)
		info, lookErr := root.Lstat(filepath.FromSlash(at))
		if lookErr != nil {
			break
		}
		here := filepath.Join(o.dir, filepath.FromSlash(at))
		switch {
		case info.Mode().Type() == fs.ModeSymlink:
			return fmt.Errorf("the destination %s is a symbolic link", here)
		case !info.IsDir():
			return fmt.Errorf("the destination %s is not a directory", here)
		}
	}
	return fmt.Errorf("the destination %s could not be made: %s", filepath.Join(o.dir, filepath.FromSlash(parent)), because(err))
}

// same tells whether dest is a regular file that holds what the workspace's file does.
func same(w *workspace.Workspace, name, dest string) bool {
	info, err := os.Lstat(dest)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	there, err := os.OpenFile(dest, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer there.Close()
	here, made, err := w.Get(name, 0)
	if err != nil {
		return false
	}
	defer here.Close()
	if info, err = there.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() != made.Size() {
		return false
	}
	return equal(here, there)
}

// equal compares what two readers hold.
func equal(a, b io.Reader) bool {
	const chunk = 64 << 10
	x, y := make([]byte, chunk), make([]byte, chunk)
	for {
		n, errA := io.ReadFull(a, x)
		m, errB := io.ReadFull(b, y)
		if !bytes.Equal(x[:n], y[:m]) {
			return false
		}
		ended := errors.Is(errA, io.EOF) || errors.Is(errA, io.ErrUnexpectedEOF)
		switch {
		case ended && (errors.Is(errB, io.EOF) || errors.Is(errB, io.ErrUnexpectedEOF)):
			return true
		case errA != nil || errB != nil:
			return false
		}
	}
}

// reasonOf is an error without the name that stands beside it.
func reasonOf(err error) string {
	var e *workspace.Error
	if errors.As(err, &e) {
		why := e.Why
		for _, inner := range []error{e.Kind, e.Err} {
			if inner != nil {
				why = cmp.Or(why, inner.Error())
			}
		}
		return cmp.Or(why, err.Error())
	}
	return because(err)
}
