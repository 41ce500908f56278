package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"brig/orchestrator/workspace"
)

// upload is one file that goes into the workspace before the code runs.
type upload struct {
	src  string // on this machine
	name string // in the workspace, slash separated
	mode fs.FileMode
	size int64
}

// uploads is what the --file flags ask for, looked at before anything starts.
// Empty directories do not travel.
type uploads struct {
	files   []upload
	skipped []string // links and special files found inside directories
	hollow  []string // directories without anything that travels
	linked  []string // what was named and is a link, so that what it leads to goes in
	bytes   int64
}

// bounds are the limits that a file meets on its way in.
type bounds struct{ file, total int64 }

// planUploads reads the arguments of --file: SRC or SRC:NAME, files or directories.
func planUploads(specs []string, limit bounds) (*uploads, error) {
	u := &uploads{}
	for _, spec := range specs {
		src, name, err := splitUpload(spec)
		if err != nil {
			return nil, err
		}
		if err := u.add(src, name); err != nil {
			return nil, err
		}
	}
	seen := map[string]string{}
	for _, f := range u.files {
		if other, twice := seen[f.name]; twice {
			return nil, usage(fmt.Sprintf("give one of them another name: --file %s:NAME", quote(f.src)), "%s and %s would both become %s", other, f.src, f.name)
		}
		seen[f.name] = f.src
		if f.size > limit.file {
			return nil, input("raise limits.file_size, see: brig config show limits.file_size", "%s is too large: %s, and a file may have at most %s", f.src, size(f.size), size(limit.file))
		}
	}
	if u.bytes > limit.total {
		return nil, input("raise limits.workspace, see: brig config show limits.workspace", "the files given with --file are too large together: %s, and a workspace holds at most %s", size(u.bytes), size(limit.total))
	}
	return u, nil
}

// splitUpload separates SRC:NAME. A file whose own name has a colon is taken as
// it is, and the colon of a drive letter separates nothing.
func splitUpload(spec string) (src, name string, err error) {
	if spec == "" {
		return "", "", usage("brig run --file data.csv FILE", "the argument of --file is empty")
	}
	src = spec
	if _, err := os.Lstat(spec); errors.Is(err, fs.ErrNotExist) {
		volume := len(filepath.VolumeName(spec))
		if at := strings.LastIndexByte(spec[volume:], ':'); at >= 0 {
			src, name = spec[:volume+at], spec[volume+at+1:]
			if name == "" {
				return "", "", usage("brig run --file "+quote(src)+" FILE", "--file %s has no name behind the colon", spec)
			}
		}
	}
	clean, err := filepath.Abs(src)
	if err != nil {
		return "", "", input("give an absolute path", "%s could not be resolved: %s", src, because(err))
	}
	base := filepath.Base(clean)
	switch {
	case name == "":
		name = base
	case strings.HasSuffix(name, "/"):
		name += base
	}
	name = path.Clean(name)
	if !fs.ValidPath(name) || name == "." || strings.ContainsAny(name, "\\\x00") {
		return "", "", usage("brig run --file "+quote(src)+":data/"+quote(base)+" FILE", "%q is no name inside the workspace: it must be relative, with slashes, and stay inside", name)
	}
	return src, name, nil
}

func (u *uploads) add(src, name string) error {
	info, err := os.Stat(src)
	if err != nil {
		return explainFile(src, err, "")
	}
	if own, err := os.Lstat(src); err == nil && own.Mode()&fs.ModeSymlink != 0 {
		at, err := filepath.EvalSymlinks(src)
		if err != nil {
			return explainFile(src, err, "")
		}
		u.linked = append(u.linked, fmt.Sprintf("%s is a link: what goes in is %s", src, at))
		src = at
	}
	if !info.IsDir() {
		// Opened once now, so that what cannot be read is known before anything starts.
		f, info, err := openRegular(src)
		if err != nil {
			return explainFile(src, err, "copy it into a file first: cat "+quote(src)+" > "+quote(filepath.Base(src)+".copy"))
		}
		f.Close()
		u.addFile(src, name, info)
		return nil
	}
	return filepath.WalkDir(src, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return explainFile(at, err, "")
		}
		rel, err := filepath.Rel(src, at)
		if err != nil {
			return explainFile(at, err, "")
		}
		inside := path.Join(name, filepath.ToSlash(rel))
		switch {
		case d.IsDir():
			if inside, err := os.ReadDir(at); err == nil && len(inside) == 0 {
				u.hollow = append(u.hollow, at)
			}
		case !d.Type().IsRegular():
			u.skipped = append(u.skipped, at)
		default:
			f, info, err := openRegular(at)
			if err != nil {
				return explainFile(at, err, "")
			}
			f.Close()
			u.addFile(at, inside, info)
		}
		return nil
	})
}

func (u *uploads) addFile(src, name string, info fs.FileInfo) {
	u.files = append(u.files, upload{src: src, name: name, mode: info.Mode().Perm() | 0o600, size: info.Size()})
	u.bytes += info.Size()
}

// putter is the workspace as far as uploads need it.
type putter interface {
	Put(name string, r io.Reader, mode fs.FileMode) (int64, error)
	Batch() (done func())
}

// put copies everything into the workspace, until ctx ends. No code writes there yet.
func (u *uploads) put(ctx context.Context, w putter) error {
	defer w.Batch()()
	for _, f := range u.files {
		if err := f.put(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

func (f upload) put(ctx context.Context, w putter) error {
	r, _, err := openRegular(f.src)
	if err != nil {
		return explainFile(f.src, err, "")
	}
	defer r.Close()
	if _, err := w.Put(f.name, workspace.While(ctx, r), f.mode); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return &failure{
			Code: "input", Message: fmt.Sprintf("could not put %s into the workspace: %v", f.src, err),
			Remedy: "brig config show", Exit: exitFailed, err: err,
		}
	}
	return nil
}

// left says what a directory held that did not go in, and what a link led to, or nothing.
func (u *uploads) left() string {
	var all []string
	some := func(what string, names []string) {
		if len(names) == 0 {
			return
		}
		shown := strings.Join(names[:min(3, len(names))], ", ")
		if n := len(names) - 3; n > 0 {
			shown += fmt.Sprintf(" and %d more", n)
		}
		all = append(all, what+shown)
	}
	some("", u.linked)
	some("links and special files stay outside of the workspace, left out: ", u.skipped)
	some("empty directories do not travel, left out: ", u.hollow)
	return strings.Join(all, "; ")
}
