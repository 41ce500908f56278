package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"unicode/utf8"
)

const (
	magic0, magic1 = 0xB7, 0x16
	headerSize     = 12
	// MaxReason is the longest reason of a reset frame, in bytes.
	MaxReason = 1 << 10
	// firstStream is the first stream id without a fixed meaning.
	firstStream = 3
)

// FrameKind is what a frame does.
type FrameKind uint8

const (
	KindControl FrameKind = 1 // one JSON object
	KindData    FrameKind = 2 // bytes of a stream
	KindEnd     FrameKind = 3 // the stream is complete
	KindCredit  FrameKind = 4 // more may be sent
	KindReset   FrameKind = 5 // the stream is aborted, by either side
)

// RawFrame is one frame as it travels.
type RawFrame struct {
	Kind    FrameKind
	Stream  uint32
	Payload []byte
}

// Reader reads frames through one buffer of fixed size: a forged length costs
// no memory. It is used by one goroutine at a time.
type Reader struct {
	r    *bufio.Reader
	read int // bytes of the last frame, still in the buffer
}

// NewReader returns a Reader of r.
func NewReader(r io.Reader) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, headerSize+MaxPayload)}
}

// Next returns the next frame; its payload is valid until the following call.
// The error is io.EOF between frames, io.ErrUnexpectedEOF within one, a
// *ProtocolError or the error of the underlying reader; with any error the
// frame is zero.
func (d *Reader) Next() (RawFrame, error) {
	if _, err := d.r.Discard(d.read); err != nil {
		panic("BUG: a peeked frame left the buffer: " + err.Error())
	}
	d.read = 0
	header, err := d.peek(headerSize)
	if err != nil {
		return RawFrame{}, err
	}
	f, size, err := parseHeader(header)
	if err != nil {
		return RawFrame{}, err
	}
	whole, err := d.peek(headerSize + size)
	if err != nil {
		return RawFrame{}, err
	}
	f.Payload = whole[headerSize:]
	if err := f.check(); err != nil {
		return RawFrame{}, err
	}
	d.read = headerSize + size
	return f, nil
}

func (d *Reader) peek(n int) ([]byte, error) {
	b, err := d.r.Peek(n)
	switch {
	case err == nil:
		return b, nil
	case !errors.Is(err, io.EOF):
		return nil, fmt.Errorf("read a frame: %w", err)
	case len(b) == 0:
		return nil, io.EOF
	default:
		return nil, io.ErrUnexpectedEOF
	}
}

// ReadFrame reads exactly one frame from r and nothing beyond it. The errors
// are those of Reader.Next.
func ReadFrame(r io.Reader) (RawFrame, error) {
	var header [headerSize]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return RawFrame{}, err
	}
	f, size, err := parseHeader(header[:])
	if err != nil {
		return RawFrame{}, err
	}
	f.Payload = make([]byte, size)
	if _, err := io.ReadFull(r, f.Payload); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return RawFrame{}, err
	}
	if err := f.check(); err != nil {
		return RawFrame{}, err
	}
	return f, nil
}

// parseHeader checks everything that can be known before the payload is read.
func parseHeader(h []byte) (RawFrame, int, error) {
	f := RawFrame{Kind: FrameKind(h[2]), Stream: binary.BigEndian.Uint32(h[4:])}
	size := binary.BigEndian.Uint32(h[8:])
	switch {
	case h[0] != magic0 || h[1] != magic1:
		return RawFrame{}, 0, violation("frame magic %#02x%02x", h[0], h[1])
	case f.Kind < KindControl || f.Kind > KindReset:
		return RawFrame{}, 0, violation("frame kind %d", f.Kind)
	case h[3] != 0:
		return RawFrame{}, 0, violation("frame flags %#02x", h[3])
	case size > MaxPayload:
		return RawFrame{}, 0, violation("frame of %d bytes", size)
	}
	if err := f.checkSize(int(size)); err != nil {
		return RawFrame{}, 0, err
	}
	return f, int(size), nil
}

// checkSize checks what kind, stream and length must have in common.
func (f RawFrame) checkSize(size int) error {
	if (f.Kind == KindControl) != (f.Stream == StreamControl) {
		return violation("frame of kind %d on stream %d", f.Kind, f.Stream)
	}
	if f.Kind >= KindEnd && f.Stream < firstStream {
		return violation("frame of kind %d on the fixed stream %d", f.Kind, f.Stream)
	}
	ok := true
	switch f.Kind {
	case KindControl:
		ok = size > 0
	case KindData:
	case KindEnd:
		ok = size == 0
	case KindCredit:
		ok = size == 4
	case KindReset:
		ok = size <= MaxReason
	}
	if !ok {
		return violation("frame of kind %d with %d bytes", f.Kind, size)
	}
	return nil
}

func (f RawFrame) check() error {
	if f.Kind == KindReset && !utf8.Valid(f.Payload) {
		return violation("reset reason is not UTF-8")
	}
	if f.Kind == KindCredit && binary.BigEndian.Uint32(f.Payload) == 0 {
		return violation("credit of nothing")
	}
	return nil
}

// append adds the encoded frame to b. A frame that the other side would refuse
// is a fault of this side.
func (f RawFrame) append(b []byte) []byte {
	b = append(b, magic0, magic1, byte(f.Kind), 0)
	b = binary.BigEndian.AppendUint32(b, f.Stream)
	b = binary.BigEndian.AppendUint32(b, uint32(len(f.Payload)))
	return append(b, f.Payload...)
}

// encodable reports whether f is a frame that Reader accepts.
func (f RawFrame) encodable() error {
	if f.Kind < KindControl || f.Kind > KindReset {
		return fmt.Errorf("encode a frame of unknown kind %d", f.Kind)
	}
	if len(f.Payload) > MaxPayload {
		return fmt.Errorf("encode a frame of %d bytes, at most %d", len(f.Payload), MaxPayload)
	}
	if err := f.checkSize(len(f.Payload)); err != nil {
		return err
	}
	return f.check()
}

// Writer writes whole frames through one buffer, each with a single Write. It
// may be used by several goroutines. Mux schedules frames; a Writer does not.
type Writer struct {
	mu  sync.Mutex
	w   io.Writer
	buf []byte
}

// NewWriter returns a Writer to w.
func NewWriter(w io.Writer) *Writer {
	return &Writer{w: w, buf: make([]byte, 0, headerSize+MaxPayload)}
}

// Write writes f.
func (e *Writer) Write(f RawFrame) error {
	if err := f.encodable(); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.buf = f.append(e.buf[:0])
	if _, err := e.w.Write(e.buf); err != nil {
		return fmt.Errorf("write a frame: %w", err)
	}
	return nil
}

// WriteFrame writes f to w.
func WriteFrame(w io.Writer, f RawFrame) error { return NewWriter(w).Write(f) }
