package main

import (
	"archive/tar"
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
	"time"

	"brig/orchestrator/api"
	"brig/orchestrator/workspace"
)

// This file carries files to a session of the brig that stays, and back.

// put packs the files of --file into one archive, which keeps their modes, and
// remembers what is there then.
func (t *there) put(ctx context.Context, u *uploads) (err error) {
	if t.once {
		return nil
	}
	if len(u.files) > 0 {
		if err := t.upload(ctx, u); err != nil {
			return err
		}
	}
	if t.before, err = t.snapshot(ctx); err != nil {
		return fmt.Errorf("look at the workspace before the run: %w", err)
	}
	return nil
}

// snapshot is what the workspace holds now. A file that was written in this very
// moment has no tag yet, so that it is looked at again.
func (t *there) snapshot(ctx context.Context) (map[string]api.File, error) {
	for try := 0; ; try++ {
		list, _, err := listFiles(ctx, t.client, t.id(), "")
		if err != nil {
			return nil, err
		}
		all, fresh := map[string]api.File{}, false
		for _, f := range list {
			all[f.Path] = f
			fresh = fresh || f.Kind == "file" && f.ETag == ""
		}
		if !fresh || try == mostLooks {
			return all, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(lookPause):
		}
	}
}

// mostLooks and lookPause bound the wait for tags; a file system whose clock is
// coarser leaves the time of modification to judge by.
const (
	mostLooks = 20
	lookPause = 5 * time.Millisecond
)

func (t *there) upload(ctx context.Context, u *uploads) error {
	r, w := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := u.pack(ctx, w)
		w.CloseWithError(err) // nil ends the archive
		packed <- err
	}()
	result, err := t.client.WriteArchive(ctx, t.id(), "", api.Tar, r)
	r.CloseWithError(errors.Join(err, io.ErrClosedPipe)) // what is still being packed has no reader
	if own := <-packed; own != nil && !errors.Is(own, io.ErrClosedPipe) && err != nil {
		return own // a file here that could not be read, which broke the request off
	}
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return &failure{
			Code: "input", Message: "could not put the files into the workspace: " + problemText(err), Remedy: "brig config show", Exit: exitFailed, err: err,
		}
	}
	if len(result.Skipped) > 0 {
		s := result.Skipped[0]
		return &failure{
			Code: "input", Message: fmt.Sprintf("could not put %s into the workspace: %s", s.Name, s.Reason), Remedy: "brig config show", Exit: exitFailed,
		}
	}
	return nil
}

// pack writes the files as an archive.
func (u *uploads) pack(ctx context.Context, w io.Writer) error {
	archive := tar.NewWriter(w)
	for _, f := range u.files {
		if err := f.pack(ctx, archive); err != nil {
			return err
		}
	}
	return archive.Close()
}

func (f upload) pack(ctx context.Context, w *tar.Writer) error {
	r, info, err := openRegular(f.src)
	if err != nil {
		return explainFile(f.src, err, "")
	}
	defer r.Close()
	header := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: int64(f.mode.Perm()), Size: info.Size(), ModTime: info.ModTime(), Format: tar.FormatPAX}
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	// A file that grows meanwhile goes as long as it was; one that shrinks ends the upload.
	n, err := io.Copy(w, io.LimitReader(workspace.While(ctx, r), info.Size()))
	if err == nil && n < info.Size() {
		err = input("wait until it is complete", "%s became shorter while it was read", f.src)
	}
	return err
}

// problemText is an error without the remedy that stands in a hint.
func problemText(err error) string {
	var p *api.Problem
	if errors.As(err, &p) {
		return cmp.Or(p.Detail, p.Title)
	}
	return err.Error()
}

// changed tells whether a file is another one than before.
func changed(before map[string]api.File, f api.File) bool {
	old, was := before[f.Path]
	switch {
	case !was || old.Kind != f.Kind || old.Bytes != f.Bytes || !old.Modified.Equal(f.Modified):
		return true
	case old.ETag == "" || f.ETag == "": // not known yet: then or now
		return f.ETag == "" && old.ETag != ""
	default:
		return old.ETag != f.ETag
	}
}

func (t *there) bring(ctx context.Context, o *outDir, taken []string) brought {
	now, _, err := listFiles(ctx, t.client, t.id(), "")
	if err != nil {
		return brought{left: []stayed{{name: "all files", why: problemText(err), lost: true}}}
	}
	now = slices.DeleteFunc(now, func(f api.File) bool { return f.Kind != "dir" && !changed(t.before, f) })
	return t.bringFiles(ctx, o, now, taken)
}

// bringFiles copies files of the session, which come in the order of their names.
func (t *there) bringFiles(ctx context.Context, o *outDir, all []api.File, taken []string) (b brought) {
	root, err := os.OpenRoot(o.dir)
	if err != nil {
		err = fmt.Errorf("%s cannot be opened: %s", o.dir, because(err))
	} else {
		defer root.Close()
	}
	for _, f := range all {
		if f.Kind == "dir" {
			if f.Problem != "" {
				b.left = append(b.left, stayed{name: f.Path + "/", why: f.Problem, lost: true})
			}
			continue
		}
		dest := filepath.Join(o.dir, filepath.FromSlash(f.Path))
		failed := cmp.Or(err, context.Cause(ctx))
		if failed == nil {
			failed = t.fetch(ctx, o, root, f, dest, slices.Contains(taken, dest))
		}
		if failed == nil {
			b.files = append(b.files, dest)
			continue
		}
		b.left = append(b.left, stayed{
			name: f.Path, why: whyNot(failed), lost: f.Kind == "file", exists: errors.Is(failed, fs.ErrExist),
		})
	}
	return b
}

// whyNot is why a file did not come.
func whyNot(err error) string {
	var p *api.Problem
	if errors.As(err, &p) {
		return problemText(err)
	}
	return reasonOf(err)
}

// fetch brings one file back.
func (t *there) fetch(ctx context.Context, o *outDir, root *os.Root, f api.File, dest string, taken bool) error {
	switch f.Kind {
	case "file":
	case "link":
		return errors.New("it is a symbolic link, not a regular file")
	default:
		return errors.New("it is not a regular file")
	}
	if parent := path.Dir(f.Path); parent != "." {
		if err := root.MkdirAll(filepath.FromSlash(parent), 0o777); err != nil {
			return o.obstacle(root, parent, err)
		}
	}
	open := func() (io.ReadCloser, error) {
		r, _, err := t.client.ReadFile(ctx, t.id(), f.Path, api.Range{})
		return r, err
	}
	keep := !o.overwrite || taken
	err := save(f.Path, open, dest, keep)
	if keep && errors.Is(err, fs.ErrExist) && holds(dest, f.Bytes, open) {
		return nil
	}
	return err
}

func save(name string, open func() (io.ReadCloser, error), dest string, keep bool) error {
	r, err := open()
	if err != nil {
		return err
	}
	defer r.Close()
	return workspace.Save(name, r, dest, keep)
}

// holds tells whether dest is a regular file with that content.
func holds(dest string, size int64, open func() (io.ReadCloser, error)) bool {
	f, info, err := openRegular(dest)
	if err != nil {
		return false
	}
	defer f.Close()
	if link, err := os.Lstat(dest); err != nil || !link.Mode().IsRegular() || info.Size() != size {
		return false
	}
	r, err := open()
	if err != nil {
		return false
	}
	defer r.Close()
	return equal(r, f)
}
