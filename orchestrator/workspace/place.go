package workspace

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// placing puts one finished file under a name in a directory that stays open
// meanwhile: however its path is moved or replaced, the file goes where it was meant to go.
type placing struct {
	w        *Workspace
	op, name string // for messages
	dir      *os.Root
	base     string
	meter    *meter // nil for a file of the host
	mode     fs.FileMode
	heir     heir // who gets the file

	// Of a file of the workspace only:
	allow    func(*Entry) error // see PutIf
	replaced bool               // set by place: something stood there

	// Of a file of the host only:
	host bool // mode and owner are what the host makes of a new file
	keep bool // what is there must not be replaced
}

// place writes a new file of a random name, and renames it when it is whole. On
// an error nothing of it stays.
func (p *placing) place(fill func(*os.File) error) error {
	if err := p.target(); err != nil {
		return err
	}
	temp := ".brig-put-" + random()
	perm := fs.FileMode(0o600)
	if p.host {
		perm = 0o666 // less the umask; never executable, never set-id
	}
	f, err := p.dir.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|openFlags, perm)
	if err != nil {
		return p.fail(err)
	}
	defer f.Close() // on an error before the file is whole
	err = p.write(f, temp, fill)
	if err == nil {
		return nil
	}
	_ = f.Close() // some systems remove no open file; the error that matters is there already
	// Code may have taken or renamed the unfinished file: then there is nothing to
	// remove, but it may still take the room.
	rerr := p.dir.Remove(temp)
	if rerr != nil && p.meter != nil {
		p.meter.strand()
	}
	if rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	return p.fail(err)
}

// write fills the unfinished file temp and makes it final.
func (p *placing) write(f *os.File, temp string, fill func(*os.File) error) error {
	if p.meter != nil {
		if err := p.meter.begin(temp, f); err != nil {
			return err
		}
	}
	if err := p.fill(f, fill); err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil {
		err = f.Close()
	}
	switch {
	case err != nil:
		return err
	case p.keep:
		return p.link(temp)
	case p.meter != nil:
		return p.meter.settle(info, func() error { return p.replace(temp) })
	}
	return p.dir.Rename(temp, p.base)
}

// replace makes the file final if what stands there may be replaced.
func (p *placing) replace(temp string) error {
	info, err := p.dir.Lstat(p.base)
	switch {
	case err == nil:
		p.replaced = true
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if p.allow == nil {
		return p.dir.Rename(temp, p.base)
	}
	if !p.replaced {
		if err := p.allow(nil); err != nil {
			return err
		}
		return p.link(temp) // so that nothing is lost that code puts there now
	}
	e := entryOf(found{path: p.name, info: info})
	if err := p.allow(&e); err != nil {
		return err
	}
	return p.dir.Rename(temp, p.base)
}

// link makes the file final where nothing stands yet, and fails with fs.ErrExist
// where something does, whoever put it there in the last moment.
func (p *placing) link(temp string) error {
	err := p.dir.Link(temp, p.base)
	if err == nil {
		return p.dir.Remove(temp)
	}
	if errors.Is(err, fs.ErrExist) {
		return p.exists()
	}
	// A file system without hard links. The name is taken with an empty file first.
	f, err := p.dir.OpenFile(p.base, os.O_WRONLY|os.O_CREATE|os.O_EXCL|openFlags, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return p.exists()
	}
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		if err = p.dir.Rename(temp, p.base); err != nil {
			_ = p.dir.Remove(p.base) // it is empty and ours
		}
	}
	return err
}

func (p *placing) exists() error {
	return &Error{Op: p.op, Name: p.name, Err: fs.ErrExist, Why: "the destination exists already"}
}

// fail words an error; where it is one of the destination's, it says so.
func (p *placing) fail(err error) error {
	var done *Error
	if errors.As(err, &done) {
		return err
	}
	err = p.w.fail(p.op, p.name, err)
	if errors.As(err, &done) && p.host {
		done.Why = "write the destination: " + done.text()
	}
	return err
}

// target refuses what must not be replaced. Whoever puts a special file there
// after this look loses it to the rename; a directory is refused by that as well.
func (p *placing) target() error {
	info, err := p.dir.Lstat(p.base)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return p.fail(err)
	}
	t := info.Mode().Type()
	special := t != 0 && t != fs.ModeSymlink
	switch {
	case special && p.host:
		e := &Error{Op: p.op, Name: p.name, Kind: ErrNotRegular, Why: "the destination is " + kindOf(info.Mode()) + ", not a regular file"}
		if p.keep {
			e.Err = fs.ErrExist
		}
		return e
	case special:
		return notRegular(p.op, p.name, info.Mode())
	case p.keep:
		return p.exists()
	}
	return nil
}

func (p *placing) fill(f *os.File, fill func(*os.File) error) error {
	if err := fill(f); err != nil {
		return err
	}
	if !p.host {
		if err := p.heir.adopt(f); err != nil {
			return err
		}
		if err := f.Chmod(p.mode); err != nil {
			return err
		}
	}
	return flush(f) // a file that a person uploaded survives a power cut
}

// CopyOut copies the file name to dest, a path on the host. dest's directory is
// the caller's choice and is resolved as usual; dest itself is replaced and never
// followed or written through. The copy is a new file of the caller's: it gets
// mode 0666 less the umask, whatever the mode inside is, so nothing that comes
// out is executable or set-id. At most Limits.File bytes are copied.
func (w *Workspace) CopyOut(name string, dest string) error { return w.copyOut(name, dest, false) }

// CopyOutNew is CopyOut that replaces nothing: if anything stands at dest, a link
// that leads nowhere included, the error is fs.ErrExist. Code that runs in the
// workspace chooses names; this keeps them from hitting a person's files.
func (w *Workspace) CopyOutNew(name string, dest string) error { return w.copyOut(name, dest, true) }

func (w *Workspace) copyOut(name, dest string, keep bool) error {
	clean, err := clean("copy", name)
	if err != nil {
		return err
	}
	base := filepath.Base(dest)
	if dest == "" || base == "." || base == ".." || strings.HasSuffix(dest, "/") || strings.HasSuffix(dest, string(filepath.Separator)) {
		return &Error{Op: "copy", Name: clean, Kind: ErrName, Why: "the destination names no file"}
	}
	src, _, err := w.get("copy", clean, 0)
	if err != nil {
		return err
	}
	defer src.Close()
	dir, err := openDir(filepath.Dir(dest))
	if err != nil {
		return &Error{Op: "copy", Name: clean, Why: "open the destination's directory: " + bare(err).Error(), Err: bare(err)}
	}
	defer dir.Close()
	p := placing{w: w, op: "copy", name: clean, dir: dir, base: base, host: true, keep: keep}
	return p.place(func(f *os.File) error { return copySparse(f, src) })
}

func random() string {
	var b [12]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
