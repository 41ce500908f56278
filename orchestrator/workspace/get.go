package workspace

import (
	"io"
	"io/fs"
	"os"
)

// Get opens a regular file with exactly one link and at most max bytes (0 means
// Limits.File) for reading. Nothing about the answer depends on a name that was
// looked at before: type, links and size are those of the opened file. If it
// grows beyond max while it is read, Read fails with ErrTooLarge after max bytes.
func (w *Workspace) Get(name string, max int64) (io.ReadCloser, fs.FileInfo, error) {
	clean, err := clean("get", name)
	if err != nil {
		return nil, nil, err
	}
	return w.get("get", clean, max)
}

func (w *Workspace) get(op, name string, max int64) (io.ReadCloser, fs.FileInfo, error) {
	if max <= 0 {
		max = w.limits.File
	}
	// This look decides nothing in favour of a file. It only spares a device from
	// being opened, which alone can have effects, where nobody is racing us.
	info, err := w.root.Stat(name)
	if err != nil {
		return nil, nil, w.fail(op, name, err)
	}
	if !info.Mode().IsRegular() {
		return nil, nil, notRegular(op, name, info.Mode())
	}
	f, err := w.root.OpenFile(name, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, nil, w.fail(op, name, err)
	}
	info, err = w.inspect(op, name, f, max)
	if err != nil {
		_ = f.Close() // opened for reading: nothing can be lost
		return nil, nil, err
	}
	return &reader{f: f, op: op, name: name, max: max, left: max}, info, nil
}

// inspect decides on the opened file.
func (w *Workspace) inspect(op, name string, f *os.File, max int64) (fs.FileInfo, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, w.fail(op, name, err)
	}
	if !info.Mode().IsRegular() {
		return nil, notRegular(op, name, info.Mode())
	}
	n, err := links(f, info)
	if err != nil {
		return nil, w.fail(op, name, err)
	}
	if n != 1 {
		return nil, &Error{
			Op: op, Name: name, Kind: ErrLinked,
			Why: "the file has more than one hard link, so it may also be a file outside the workspace",
		}
	}
	if info.Size() > max {
		return nil, tooLarge(op, name, info.Size(), max)
	}
	return info, nil
}

func tooLarge(op, name string, have, max int64) error {
	return &Error{Op: op, Name: name, Kind: ErrTooLarge, Why: "it has " + size(have) + ", " + size(max) + " are allowed"}
}

// reader is a file that ends with an error where it grows too large.
type reader struct {
	f        *os.File
	op, name string
	max      int64
	left     int64
}

func (r *reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if r.left == 0 {
		// One more byte tells the end of the file from a file that has grown.
		var one [1]byte
		n, err := r.f.Read(one[:])
		if n == 0 {
			return 0, err
		}
		return 0, &Error{
			Op: r.op, Name: r.name, Kind: ErrTooLarge,
			Why: "it grew beyond " + size(r.max) + " while it was read",
		}
	}
	if int64(len(p)) > r.left {
		p = p[:r.left]
	}
	n, err := r.f.Read(p)
	r.left -= int64(n)
	return n, err
}

func (r *reader) Close() error { return r.f.Close() }
