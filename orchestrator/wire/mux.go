package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// MaxStreams is how many announced streams of one side may be open at a time.
const MaxStreams = 64

const (
	// maxWindow bounds what a peer may grant on one stream.
	maxWindow = 1 << 30
	// maxRefused is how many streams that this side aborted are remembered, so
	// that what was already under way on them is no violation.
	maxRefused = 1024
	// closeGrace bounds how long Close waits for a transport that was closed,
	// and how long reads go on after writing has failed.
	closeGrace = 2 * time.Second
)

// Role tells the two ends of a connection apart.
type Role uint8

const (
	RoleBrig   Role = iota + 1 // opens odd streams from 3
	RoleRunner                 // opens even streams from 4
)

// MuxOptions configure a Mux. The callbacks run on the goroutine of Serve, so
// they must not wait for the peer; an error ends the connection. What they are
// passed is valid only during the call.
type MuxOptions struct {
	Role Role
	// Message receives every control message of the other side. It accepts the
	// streams that the message announces before it returns.
	Message func(m Message) error
	// Output receives the standard streams; nil: they are a violation.
	Output func(stream uint32, p []byte) error
	// Close closes the transport so that blocked reads and writes return. It is
	// called once and must not call back. Nil: r and w are closed where they can be.
	Close func() error
}

// Mux carries control messages, the standard streams and announced streams with
// credit over one pair of pipes, for either side. Control, credit and reset
// frames overtake data, so that they wait for one frame of data at most.
// All methods may be called concurrently.
type Mux struct {
	o MuxOptions
	r *Reader
	w io.Writer

	announcing sync.Mutex // held while an id is handed out and announced

	mu      sync.Mutex
	work    sync.Cond // the writer waits here
	urgent  queue     // control, credit, reset
	bulk    queue     // data and end
	sending map[uint32]*SendStream
	open    map[uint32]*RecvStream
	refused refusedStreams
	next    uint32 // the next id of this side
	last    uint32 // the last id that the other side announced
	err     error

	done       chan struct{} // closed with err set
	writerDone chan struct{}
	closing    sync.Once
	closeErr   error
}

// NewMux starts the writing half; the owner calls Serve for the reading half
// and Close in the end.
func NewMux(r io.Reader, w io.Writer, o MuxOptions) *Mux {
	if o.Close == nil {
		o.Close = func() error { return errors.Join(closeIfCloser(w), closeIfCloser(r)) }
	}
	m := &Mux{
		o: o, r: NewReader(r), w: w, next: firstStream, last: firstStream - 1,
		sending: make(map[uint32]*SendStream), open: make(map[uint32]*RecvStream), refused: refusedStreams{left: make(map[uint32]int64)},
		done: make(chan struct{}), writerDone: make(chan struct{}),
	}
	switch o.Role {
	case RoleBrig:
	case RoleRunner:
		m.next++
	default:
		panic("BUG: a mux without a role")
	}
	m.work.L = &m.mu
	go m.writeLoop()
	return m
}

func closeIfCloser(x any) error {
	if c, ok := x.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// Done is closed when the connection has ended; Err then says why.
func (m *Mux) Done() <-chan struct{} { return m.done }

// Err is nil until the connection has ended; see LostError for what it can be.
func (m *Mux) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

// Close ends the connection without a farewell: the end of its input is what
// tells a runner to end. It is idempotent and bounded.
func (m *Mux) Close() error {
	m.fail(ErrClosed)
	if err := waitFor(m.writerDone); err != nil {
		return err
	}
	return m.closeErr
}

func waitFor(done <-chan struct{}) error {
	timer := time.NewTimer(closeGrace)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
		return errUnblocked
	}
}

// fail ends the connection; the first error counts.
func (m *Mux) fail(err error) {
	m.mu.Lock()
	if m.err == nil {
		m.err = err
		close(m.done)
		m.work.Broadcast()
		for _, s := range m.open {
			s.ready.Broadcast()
		}
	}
	m.mu.Unlock()
	m.closing.Do(func() { m.closeErr = m.o.Close() })
}

// Serve reads until the connection ends and returns why: the same as Err.
func (m *Mux) Serve() error {
	for {
		f, err := m.r.Next()
		if err == nil {
			err = m.handle(f)
		}
		if err != nil {
			m.fail(err)
			return m.Err()
		}
	}
}

func (m *Mux) handle(f RawFrame) error {
	switch f.Kind {
	case KindControl:
		message, err := DecodeMessage(f.Payload, m.other())
		if err != nil {
			return err
		}
		return m.o.Message(message)
	case KindData:
		if f.Stream < firstStream {
			if m.o.Output == nil {
				return violation("output from the wrong side")
			}
			return m.o.Output(f.Stream, f.Payload)
		}
		return m.received(f.Stream, f.Payload, nil)
	case KindEnd:
		return m.received(f.Stream, nil, io.EOF)
	case KindCredit:
		return m.granted(f.Stream, int64(binary.BigEndian.Uint32(f.Payload)))
	case KindReset:
		if m.own(f.Stream) {
			return m.stopped(f.Stream, &ResetError{Reason: string(f.Payload)})
		}
		return m.received(f.Stream, nil, &ResetError{Reason: string(f.Payload)})
	default:
		panic(fmt.Sprintf("BUG: the codec let frame kind %d through", f.Kind))
	}
}

func (m *Mux) other() Role {
	if m.o.Role == RoleBrig {
		return RoleRunner
	}
	return RoleBrig
}

// own reports whether this side hands out that id.
func (m *Mux) own(id uint32) bool { return id%2 == m.ownParity() }

func (m *Mux) ownParity() uint32 {
	if m.o.Role == RoleBrig {
		return 1
	}
	return 0
}

// refusedStreams remembers streams that this side aborted and what credit was
// still out on them. The oldest are forgotten.
type refusedStreams struct {
	left  map[uint32]int64
	order []uint32
}

func (r *refusedStreams) add(id uint32, window int64) {
	if len(r.order) == maxRefused {
		delete(r.left, r.order[0])
		r.order = append(r.order[:0], r.order[1:]...)
	}
	r.left[id] = window
	r.order = append(r.order, id)
}

// take accepts data or the end of a refused stream; false: it is none, or beyond its credit.
func (r *refusedStreams) take(id uint32, n int, end bool) bool {
	left, ok := r.left[id]
	if !ok || int64(n) > left {
		return false
	}
	if end {
		delete(r.left, id)
	} else {
		r.left[id] = left - int64(n)
	}
	return true
}
