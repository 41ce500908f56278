package workspace

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
)

// remeasure is after how many bytes of one put the workspace is measured again,
// because code may have filled it meanwhile.
const remeasure = 64 << 20

// Put writes r into the file name and returns how many bytes it wrote. Readers see
// the old content or the new one, never a part. Missing parent directories are
// made. A link at the end of name is replaced, not followed; a directory or a
// special file there is ErrNotRegular. Of mode only the permission bits count; 0 means 0600.
//
// The bytes count against Limits.File and, on top of everything that is there
// (the file to be replaced included), against Limits.Bytes.
func (w *Workspace) Put(name string, r io.Reader, mode fs.FileMode) (int64, error) {
	clean, err := cleanNew("put", name)
	if err != nil {
		return 0, err
	}
	if mode &= fs.ModePerm; mode == 0 {
		mode = 0o600
	}
	m, err := w.meter(clean)
	if err != nil {
		return 0, err
	}
	h, err := w.heir()
	if err != nil {
		m.refund()
		return 0, w.fail("put", clean, err)
	}
	parent, base := path.Split(clean)
	parent = strings.TrimSuffix(parent, "/")
	if err := w.makeParents(parent, mode, h); err != nil {
		m.refund()
		return 0, err
	}
	dir, err := openSub(w.root, parent)
	if err != nil {
		m.refund()
		return 0, w.fail("put", clean, err)
	}
	defer dir.Close()
	p := placing{w: w, op: "put", name: clean, dir: dir, base: base, mode: mode, heir: h}
	if err := p.place(func(f io.Writer) error { return m.copy(f, r) }); err != nil {
		m.refund()
		return 0, err
	}
	return m.own, nil
}

// makeParents makes every missing directory of parent, as open as a file of mode is.
func (w *Workspace) makeParents(parent string, mode fs.FileMode, h heir) error {
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

// meter follows what one put adds to the workspace.
type meter struct {
	w    *Workspace
	name string
	base int64 // what was there, less what puts had written when it was measured
	own  int64
	due  int64 // measure again when own gets here
}

func (w *Workspace) meter(name string) (*meter, error) {
	m := &meter{w: w, name: name}
	return m, m.measure()
}

func (m *meter) measure() error {
	// The counter is read first: what is written during the walk counts twice, never not at all.
	before := m.w.written.Load()
	used, files, err := m.w.Usage()
	if errors.Is(err, ErrTooMany) || (err == nil && files >= m.w.limits.Files) {
		return &Error{Op: "put", Name: m.name, Kind: ErrQuota, Why: "the workspace holds too many files"}
	}
	if err != nil {
		return err
	}
	m.base = used - before
	m.due = m.own + remeasure
	return m.check(0)
}

// check says whether n more bytes fit.
func (m *meter) check(n int64) error {
	if m.base+m.w.written.Load()+n > m.w.limits.Bytes {
		return &Error{
			Op: "put", Name: m.name, Kind: ErrQuota,
			Why: "the workspace would exceed its quota of " + size(m.w.limits.Bytes),
		}
	}
	return nil
}

func (m *meter) copy(dst io.Writer, src io.Reader) error {
	buf := make([]byte, 64<<10)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			if err := m.write(dst, buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return &Error{Op: "put", Name: m.name, Why: "reading the new content failed", Err: err}
		}
	}
}

func (m *meter) write(dst io.Writer, p []byte) error {
	n := int64(len(p))
	if m.own+n > m.w.limits.File {
		return &Error{Op: "put", Name: m.name, Kind: ErrTooLarge, Why: "one file may have " + size(m.w.limits.File)}
	}
	if m.own >= m.due {
		if err := m.measure(); err != nil {
			return err
		}
	}
	if err := m.check(n); err != nil {
		return err
	}
	m.own += n
	m.w.written.Add(n)
	_, err := dst.Write(p)
	return err
}

// refund takes back what a failed put had counted; its file is gone by then.
func (m *meter) refund() {
	m.w.written.Add(-m.own)
	m.own = 0
}
