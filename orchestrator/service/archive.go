package service

import (
	"archive/tar"
	"archive/zip"
	"compress/flate"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"brig/orchestrator/api"
	"brig/orchestrator/workspace"
)

// leftOutName is the member of a downloaded archive that names what is not in it.
const leftOutName = "brig-left-out.txt"

func (v *view) ReadArchive(ctx context.Context, session, prefix string, f api.ArchiveFormat) (io.ReadCloser, error) {
	_, w, err := v.files(ctx, session)
	if err != nil {
		return nil, err
	}
	p, err := lookBelow(w, prefix)
	if err != nil {
		return nil, err
	}
	switch f {
	case api.Tar, api.TarGz, api.Zip:
	default:
		return nil, api.NewProblem(api.CodeInvalid, "there is no such format of archives", "ask for tar, tar.gz or zip")
	}
	return produce(ctx, func(out io.Writer) error { return p.pack(out, f) }), nil
}

// produce is what write writes, made while it is read. It ends with ctx, and when
// the reader is closed.
func produce(ctx context.Context, write func(io.Writer) error) io.ReadCloser {
	r, w := io.Pipe()
	stop := context.AfterFunc(ctx, func() { _ = w.CloseWithError(context.Cause(ctx)) }) // it never fails
	go func() {                                                                         // ends when write does: with its work, or when nobody reads any more
		defer stop()
		_ = w.CloseWithError(write(w)) // nil is the end
	}()
	return r
}

// pick is what an archive is made of.
type pick struct {
	w       *workspace.Workspace
	prefix  string
	entries []workspace.Entry
	left    []string // what is not in it, and why
}

// lookBelow finds what lies below prefix.
func lookBelow(w *workspace.Workspace, prefix string) (*pick, error) {
	if strings.Trim(prefix, "./") == "" && !strings.Contains(prefix, "..") {
		prefix = ""
	} else {
		clean, err := workspace.Clean(prefix)
		if err != nil {
			return nil, fileProblem(err)
		}
		prefix = clean
	}
	entries, more, err := w.List(prefix, workspace.MaxEntries)
	if err != nil {
		return nil, fileProblem(err)
	}
	p := &pick{w: w, prefix: prefix, entries: entries}
	if more > 0 {
		p.left = append(p.left, fmt.Sprintf("%d more files: brig looks at no more than %d", more, workspace.MaxEntries))
	}
	return p, nil
}

// member is the name that an entry has in the archive.
func (p *pick) member(e workspace.Entry) string {
	if e.Path == p.prefix {
		return path.Base(e.Path)
	}
	return strings.TrimPrefix(strings.TrimPrefix(e.Path, p.prefix), "/")
}

// leave notes what is not in the archive.
func (p *pick) leave(e workspace.Entry, why string) {
	p.left = append(p.left, fmt.Sprintf("%q: %s", e.Path, why))
}

func (p *pick) pack(out io.Writer, f api.ArchiveFormat) (err error) {
	switch f {
	case api.TarGz:
		z, err := gzip.NewWriterLevel(out, gzip.BestSpeed)
		if err != nil {
			return err
		}
		return errors.Join(p.packAll(&tarPacker{tar.NewWriter(z)}), z.Close())
	case api.Zip:
		return p.packAll(newZipPacker(out))
	case api.Tar:
	}
	return p.packAll(&tarPacker{tar.NewWriter(out)})
}

// packer is one format.
type packer interface {
	dir(name string, e workspace.Entry) error
	file(name string, e workspace.Entry, content io.Reader) error
	text(name, content string) error
	Close() error
}

func (p *pick) packAll(to packer) error {
	if err := p.packInto(to, ""); err != nil {
		return err // what was written so far is no archive, and is not made to look like one
	}
	return p.finish(to)
}

// finish names what is not in the archive and ends it.
func (p *pick) finish(to packer) error {
	if len(p.left) > 0 {
		text := "Not in this archive:\n" + strings.Join(p.left, "\n") + "\n"
		if err := to.text(leftOutName, text); err != nil {
			return err
		}
	}
	return to.Close()
}

// packInto adds everything below a directory of the archive.
func (p *pick) packInto(to packer, dir string) error {
	for _, e := range p.entries {
		if err := p.add(to, path.Join(dir, p.member(e)), e); err != nil {
			return err
		}
	}
	return nil
}

func (p *pick) add(to packer, name string, e workspace.Entry) error {
	if e.Problem != "" {
		p.leave(e, e.Problem)
	}
	switch e.Kind {
	case workspace.Dir:
		return to.dir(name+"/", e)
	case workspace.File:
	case workspace.Link:
		p.leave(e, "it is a symbolic link")
		return nil
	case workspace.Other:
		p.leave(e, "it is a special file")
		return nil
	}
	content, now, err := p.w.GetPart(e.Path, 0, 0)
	if err != nil {
		p.leave(e, sentence(err))
		return nil
	}
	defer content.Close()
	if most := p.w.Limits().File; now.Size > most {
		p.leave(e, fmt.Sprintf("it has %d bytes, more than limits.file_size allows", now.Size))
		return nil
	}
	err = to.file(name, now, content)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return api.NewProblem(api.CodeConflict, fmt.Sprintf("%q became shorter while it was packed", e.Path), "ask again")
	}
	return err
}

type tarPacker struct{ *tar.Writer }

func (t *tarPacker) dir(name string, e workspace.Entry) error {
	return t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755, ModTime: e.ModTime, Format: tar.FormatPAX})
}

func (t *tarPacker) file(name string, e workspace.Entry, content io.Reader) error {
	err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: e.Size, ModTime: e.ModTime, Format: tar.FormatPAX})
	if err != nil {
		return err
	}
	_, err = io.Copy(t, content)
	return err
}

func (t *tarPacker) text(name, content string) error {
	return t.file(name, workspace.Entry{Size: int64(len(content))}, strings.NewReader(content))
}

type zipPacker struct{ *zip.Writer }

// newZipPacker makes one whose members are written one after the other, so that
// one compressor, which takes a megabyte, does for all.
func newZipPacker(out io.Writer) *zipPacker {
	z := zip.NewWriter(out)
	var one *flate.Writer
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (_ io.WriteCloser, err error) {
		if one == nil {
			one, err = flate.NewWriter(w, flate.BestSpeed)
			return one, err
		}
		one.Reset(w)
		return one, nil
	})
	return &zipPacker{z}
}

func (z *zipPacker) dir(name string, e workspace.Entry) error {
	h := &zip.FileHeader{Name: name, Modified: e.ModTime}
	h.SetMode(fs.ModeDir | 0o755)
	_, err := z.CreateHeader(h)
	return err
}

func (z *zipPacker) file(name string, e workspace.Entry, content io.Reader) error {
	h := &zip.FileHeader{Name: name, Modified: e.ModTime, Method: zip.Deflate}
	h.SetMode(0o644)
	w, err := z.CreateHeader(h)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, content)
	return err
}

func (z *zipPacker) text(name, content string) error {
	return z.file(name, workspace.Entry{}, strings.NewReader(content))
}
