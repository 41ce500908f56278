package workspace

import (
	"fmt"
	"io"
	"math"
	"os"
	"time"
)

// Stat describes the regular file name, which has exactly one link; a link inside
// of the workspace is followed. Whatever changes the file afterwards changes its Tag.
func (w *Workspace) Stat(name string) (Entry, error) {
	r, e, err := w.GetPart(name, 0, 0)
	if err != nil {
		return Entry{}, err
	}
	return e, r.Close()
}

// GetPart opens a part of a regular file with exactly one link, of any size:
// length bytes (0: all) from offset on, at most to the end that the file had when it was
// opened. If it becomes shorter while it is read, Read fails with
// io.ErrUnexpectedEOF. The Entry is of that moment; ErrRange: it has no byte at
// offset, and is described none the less.
func (w *Workspace) GetPart(name string, offset, length int64) (io.ReadCloser, Entry, error) {
	clean, err := clean("get", name)
	if err != nil {
		return nil, Entry{}, err
	}
	whole, _, err := w.get("get", clean, math.MaxInt64)
	if err != nil {
		return nil, Entry{}, err
	}
	f := whole.(*reader).f
	e, err := settled(clean, f, tick)
	if err == nil && (offset < 0 || length < 0 || offset > 0 && offset >= e.Size) {
		err = &Error{Op: "get", Name: clean, Kind: ErrRange, Why: fmt.Sprintf("it has %d bytes", e.Size)}
	}
	if err == nil && offset > 0 {
		_, err = f.Seek(offset, io.SeekStart)
	}
	if err != nil {
		_ = f.Close() // opened for reading: nothing can be lost
		return nil, e, w.fail("get", clean, err)
	}
	left := e.Size - offset
	if length > 0 {
		left = min(left, length)
	}
	return &part{f: f, left: left}, e, nil
}

// settleMost is how often a file is looked at whose later changes would not show:
// several ticks of the clock that stamps files.
const settleMost = 50

// settled describes an opened file once any later change will show: times are
// those of a clock that ticks some hundred times a second. One that code writes all
// the time has no such moment, and then no Tag.
func settled(name string, f *os.File, tick func() int64) (Entry, error) {
	for tries := 1; ; tries++ {
		info, err := f.Stat()
		if err != nil {
			return Entry{}, err
		}
		e := entryOf(found{path: name, info: info})
		now := tick()
		e.fresh = now != 0 && e.Changed == now
		if !e.fresh || tries == settleMost {
			return e, nil
		}
		time.Sleep(time.Millisecond)
	}
}

// part is a piece of a file that has to come whole.
type part struct {
	f    *os.File
	left int64
}

func (p *part) Read(b []byte) (int, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	if int64(len(b)) > p.left {
		b = b[:p.left]
	}
	n, err := p.f.Read(b)
	p.left -= int64(n)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (p *part) Close() error { return p.f.Close() }
