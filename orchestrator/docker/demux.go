package docker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
)

// diagnosticBytes is how much of the runner's own standard error is kept.
const diagnosticBytes = 8 << 10

// The engine's framing of an attached stream without a terminal: one byte that
// names the stream, three that are zero, four of length, then so many bytes.
const (
	frameHeader = 8
	frameStdout = 1
	frameStderr = 2
	frameError  = 3 // the engine's own words
)

var errFraming = errors.New("the engine sent a stream that is not framed")

// demux reads the runner's standard output out of an attached stream and keeps the
// end of its standard error, which carries no user output, as diagnostics. It needs
// no goroutine: whoever reads it drains both.
type demux struct {
	r      io.Reader
	left   uint32        // of the frame in hand, all of it standard output
	pieces atomic.Uint64 // that have come: whoever sees the number grow has heard something

	mu   sync.Mutex
	tail []byte // at most diagnosticBytes
}

func (d *demux) Read(p []byte) (int, error) {
	for d.left == 0 {
		var header [frameHeader]byte
		if _, err := io.ReadFull(d.r, header[:]); err != nil {
			return 0, err
		}
		d.pieces.Add(1)
		length := binary.BigEndian.Uint32(header[4:])
		switch header[0] {
		case frameStdout:
			d.left = length
		case frameStderr, frameError:
			if _, err := io.CopyN(diagnostics{d}, d.r, int64(length)); err != nil {
				return 0, noEOF(err)
			}
			if header[0] == frameError {
				return 0, fmt.Errorf("the engine ended the stream: %s", d.diagnostic())
			}
		default:
			return 0, errFraming
		}
	}
	n, err := d.r.Read(p[:min(len(p), int(min(d.left, 1<<30)))])
	d.left -= uint32(n)
	d.pieces.Add(1)
	if d.left > 0 {
		err = noEOF(err)
	}
	return n, err
}

// noEOF marks an end inside a frame.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// diagnostic is the end of what the runner said about itself: hostile text, made printable.
func (d *demux) diagnostic() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return lastLine(d.tail)
}

type diagnostics struct{ d *demux }

func (w diagnostics) Write(p []byte) (int, error) {
	w.d.mu.Lock()
	defer w.d.mu.Unlock()
	w.d.tail = append(w.d.tail, p...)
	if over := len(w.d.tail) - diagnosticBytes; over > 0 {
		w.d.tail = append(w.d.tail[:0], w.d.tail[over:]...)
	}
	return len(p), nil
}
