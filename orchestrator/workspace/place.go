package workspace

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// placing puts one finished file under a name in a directory that stays open
// meanwhile: however its path is moved or replaced, the file goes where it was meant to go.
type placing struct {
	w        *Workspace
	op, name string // for messages
	dir      *os.Root
	base     string
	mode     fs.FileMode
	heir     heir // who gets the file; zero for a file of the host
}

// place writes a new file of a random name, and renames it when it is whole. On
// an error nothing of it stays.
func (p placing) place(fill func(io.Writer) error) error {
	if err := p.target(); err != nil {
		return err
	}
	temp := ".brig-put-" + random()
	f, err := p.dir.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|openFlags, 0o600)
	if err != nil {
		return p.w.fail(p.op, p.name, err)
	}
	err = p.fill(f, fill)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = p.dir.Rename(temp, p.base)
	}
	if err != nil {
		// Code may have taken or renamed the unfinished file: then there is nothing to remove.
		if rerr := p.dir.Remove(temp); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
		return p.w.fail(p.op, p.name, err)
	}
	return nil
}

// target refuses what must not be replaced. Whoever puts a special file there
// after this look loses it to the rename; a directory is refused by that as well.
func (p placing) target() error {
	info, err := p.dir.Lstat(p.base)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return p.w.fail(p.op, p.name, err)
	}
	if t := info.Mode().Type(); t != 0 && t != fs.ModeSymlink {
		return notRegular(p.op, p.name, info.Mode())
	}
	return nil
}

func (p placing) fill(f *os.File, fill func(io.Writer) error) error {
	if err := fill(f); err != nil {
		return err
	}
	if err := p.heir.adopt(f); err != nil {
		return err
	}
	if err := f.Chmod(p.mode); err != nil {
		return err
	}
	// A file that a person uploaded survives a power cut. Some file systems have nothing to sync.
	if err := f.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}

// CopyOut copies the file name to dest, a path on the host. dest's directory is
// the caller's choice and is resolved as usual; dest itself is replaced and never
// followed or written through. Of the file's mode only 0644 survives: nothing
// that comes out is set-id or executable. At most Limits.File bytes are copied.
func (w *Workspace) CopyOut(name string, dest string) error {
	clean, err := clean("copy", name)
	if err != nil {
		return err
	}
	base := filepath.Base(dest)
	if dest == "" || base == "." || base == ".." || strings.HasSuffix(dest, "/") || strings.HasSuffix(dest, string(filepath.Separator)) {
		return &Error{Op: "copy", Name: clean, Kind: ErrName, Why: "the destination names no file"}
	}
	src, info, err := w.get("copy", clean, 0)
	if err != nil {
		return err
	}
	defer src.Close()
	dir, err := openDir(filepath.Dir(dest))
	if err != nil {
		return &Error{Op: "copy", Name: clean, Why: "open the destination's directory: " + bare(err).Error(), Err: bare(err)}
	}
	defer dir.Close()
	mode := info.Mode().Perm()&0o644 | 0o600
	p := placing{w: w, op: "copy", name: clean, dir: dir, base: base, mode: mode}
	return p.place(func(f io.Writer) error {
		// Hidden ReadFrom and WriteTo: the bound of src must see every byte.
		_, err := io.Copy(struct{ io.Writer }{f}, struct{ io.Reader }{src})
		return err
	})
}

func random() string {
	var b [12]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
