package wire

import (
	"fmt"
	"io"
	"sync"
)

// RecvStream is an announced stream of the other side. It holds at most
// InitialCredit bytes that were not read yet. Read is called by one goroutine at
// a time, Reset by anyone.
type RecvStream struct {
	m       *Mux
	id      uint32
	window  int64 // what the sender may still send
	owed    int64 // consumed and not granted yet
	ready   sync.Cond
	buf     []byte
	spare   []byte // the other of two buffers that take turns
	reading []byte // what Read has not passed on of the buffer it took
	end     error  // io.EOF, *ResetError, or errSpent after Reset
	refused bool   // by Reset
	// sink takes the data on the goroutine of Serve instead of the buffer.
	sink func(p []byte, end error) error
}

// Accept prepares for the stream that a message has just announced. It is
// called within MuxOptions.Message.
func (m *Mux) Accept(id uint32) (*RecvStream, error) { return m.accept(id, nil) }

// AcceptFunc is Accept for a consumer that never waits: it is called on the
// goroutine of Serve with each piece and, once, with end: io.EOF or a *ResetError.
func (m *Mux) AcceptFunc(id uint32, sink func(p []byte, end error) error) error {
	_, err := m.accept(id, sink)
	return err
}

func (m *Mux) accept(id uint32, sink func([]byte, error) error) (*RecvStream, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case id < firstStream || m.own(id):
		return nil, violation("stream %d announced by the wrong side", id)
	case id <= m.last:
		return nil, violation("stream %d announced after stream %d", id, m.last)
	case len(m.open) >= MaxStreams:
		return nil, violation("more than %d open streams", MaxStreams)
	}
	m.last = id
	s := &RecvStream{m: m, id: id, window: InitialCredit, sink: sink}
	s.ready.L = &m.mu
	m.open[id] = s
	return s, nil
}

// received handles data or the end of a stream of the other side.
func (m *Mux) received(id uint32, p []byte, end error) error {
	m.mu.Lock()
	s, ok := m.open[id]
	if !ok {
		defer m.mu.Unlock()
		if m.refused.take(id, len(p), end != nil) {
			return nil
		}
		return violation("data on stream %d, which is not open or out of credit", id)
	}
	if int64(len(p)) > s.window {
		m.mu.Unlock()
		return violation("%d bytes on stream %d beyond its credit", int64(len(p))-s.window, id)
	}
	s.window -= int64(len(p))
	if end != nil {
		s.end = end
		delete(m.open, id)
	}
	if s.sink == nil {
		s.buf = append(s.buf, p...)
		s.ready.Signal()
		m.mu.Unlock()
		return nil
	}
	m.mu.Unlock()
	if err := s.sink(p, end); err != nil {
		return err
	}
	s.release(len(p))
	return nil
}

// take waits for data and returns all there is, valid until the following take.
// The caller then releases what it has used.
func (s *RecvStream) take() ([]byte, error) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	for len(s.buf) == 0 {
		if s.end != nil {
			return nil, s.end
		}
		if s.m.err != nil { // which may be io.EOF: the end of the connection is not the end of the stream
			return nil, &LostError{Err: s.m.err}
		}
		s.ready.Wait()
	}
	taken := s.buf
	s.buf, s.spare = s.spare[:0], taken
	return taken, nil
}

// release grants what was consumed, in large steps.
func (s *RecvStream) release(n int) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.owed += int64(n)
	if s.end != nil || s.owed < InitialCredit/4 {
		return
	}
	if s.m.post(creditFrame(s.id, uint32(s.owed))) == nil {
		s.window += s.owed
		s.owed = 0
	}
}

// Read returns io.EOF at the end that the sender announced and a *ResetError
// where it aborted; a *LostError means that the end was not seen.
func (s *RecvStream) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	s.m.mu.Lock()
	refused := s.refused
	s.m.mu.Unlock()
	if len(s.reading) == 0 || refused {
		taken, err := s.take()
		if err != nil {
			return 0, err
		}
		s.reading = taken
	}
	n := copy(p, s.reading)
	s.reading = s.reading[n:]
	s.release(n)
	return n, nil
}

// WriteTo copies the whole stream to w, without a copy in between.
func (s *RecvStream) WriteTo(w io.Writer) (int64, error) {
	total, readErr, writeErr := s.copyTo(w)
	if writeErr != nil {
		return total, writeErr
	}
	return total, readErr
}

// copyTo keeps errors of the stream and of w apart.
func (s *RecvStream) copyTo(w io.Writer) (total int64, readErr, writeErr error) {
	for {
		p, err := s.take()
		if err == io.EOF { //nolint:errorlint // the contract of io.Reader
			return total, nil, nil
		}
		if err != nil {
			return total, err, nil
		}
		n, err := w.Write(p)
		total += int64(n)
		if err == nil && n < len(p) {
			err = io.ErrShortWrite
		}
		if err != nil {
			return total, nil, err
		}
		s.release(len(p))
	}
}

// Reset tells the sender to stop, unless the stream has ended. What is still
// under way is ignored, and a blocked Read returns. It does not wait.
func (s *RecvStream) Reset(reason string) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if s.end != nil {
		return
	}
	s.refused = true
	s.end = fmt.Errorf("read a stream: %w", errSpent)
	s.buf = nil
	delete(s.m.open, s.id)
	s.m.refused.add(s.id, s.window)
	_ = s.m.post(resetFrame(s.id, reason))
	s.ready.Broadcast()
}
