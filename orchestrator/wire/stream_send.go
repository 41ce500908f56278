package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
)

// SendStream is an announced stream of this side. Send and End are called by
// one goroutine at a time, Reset by anyone.
type SendStream struct {
	m      *Mux
	id     uint32
	credit int64
	wake   chan struct{} // capacity 1: credit or err has changed
	err    error         // why nothing more can be sent
}

// Announce opens n streams and posts the message that names them, in one step:
// ids are announced in the order in which they are handed out. On an error
// nothing was sent.
func (m *Mux) Announce(n int, build func(streams []*SendStream) Message) ([]*SendStream, error) {
	m.announcing.Lock()
	defer m.announcing.Unlock()
	streams, err := m.openStreams(n)
	if err != nil {
		return nil, err
	}
	if err := m.Post(build(streams)); err != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, s := range streams {
			delete(m.sending, s.id)
			m.next -= 2
		}
		return nil, err
	}
	return streams, nil
}

// announceWhole is Announce of one stream whose content is known and fits into one
// frame: all of it is queued in one step, ended, and written at once. The receiver
// may still refuse it, which nobody is told.
func (m *Mux) announceWhole(content []byte, build func(stream *SendStream) Message) error {
	if len(content) > MaxPayload {
		panic("BUG: a stream in one step of more than a frame")
	}
	m.announcing.Lock()
	defer m.announcing.Unlock()
	streams, err := m.openStreams(1)
	if err != nil {
		return err
	}
	s := streams[0]
	payload, err := EncodeMessage(build(s))
	m.mu.Lock()
	if err == nil {
		err = m.post(RawFrame{Kind: KindControl, Payload: payload})
	}
	if err == nil {
		s.err = errSpent
		delete(m.sending, s.id)
		if len(content) > 0 {
			m.bulk.push(&job{frame: RawFrame{Kind: KindData, Stream: s.id, Payload: bytes.Clone(content)}})
		}
		m.bulk.push(&job{frame: RawFrame{Kind: KindEnd, Stream: s.id}})
	} else {
		delete(m.sending, s.id)
		m.next -= 2
	}
	m.mu.Unlock()
	if errors.Is(err, errStalled) {
		m.fail(err)
	}
	return err
}

func (m *Mux) openStreams(n int) ([]*SendStream, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.err != nil:
		return nil, m.err
	case len(m.sending)+n > MaxStreams:
		return nil, fmt.Errorf("open %d streams: %d of %d are open already", n, len(m.sending), MaxStreams)
	case m.next > math.MaxUint32-2*MaxStreams:
		return nil, errors.New("open a stream: every id was used")
	}
	streams := make([]*SendStream, n)
	for i := range streams {
		s := &SendStream{m: m, id: m.next, credit: InitialCredit, wake: make(chan struct{}, 1)}
		m.next += 2
		m.sending[s.id] = s
		streams[i] = s
	}
	return streams, nil
}

// ID is what the announcement names.
func (s *SendStream) ID() uint32 { return s.id }

// Send sends p as credit allows. After an error only Reset makes sense: a
// *ResetError says that the receiver wants no more.
func (s *SendStream) Send(ctx context.Context, p []byte) error {
	for len(p) > 0 {
		n, err := s.reserve(ctx, min(len(p), MaxPayload))
		if err != nil {
			return err
		}
		if err := s.m.submit(ctx, &s.m.bulk, RawFrame{Kind: KindData, Stream: s.id, Payload: p[:n]}); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// reserve takes up to most bytes of credit and waits while there is none.
func (s *SendStream) reserve(ctx context.Context, most int) (int, error) {
	for {
		s.m.mu.Lock()
		if err := s.err; err != nil {
			s.m.mu.Unlock()
			return 0, err
		}
		if s.credit > 0 {
			n := min(most, int(s.credit))
			s.credit -= int64(n)
			s.m.mu.Unlock()
			return n, nil
		}
		s.m.mu.Unlock()
		select {
		case <-s.wake:
		case <-s.m.done:
			return 0, s.m.Err()
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// End says that all was sent. It waits until that is written, so that a message
// which is sent afterwards also arrives afterwards.
func (s *SendStream) End(ctx context.Context) error {
	s.m.mu.Lock()
	if err := s.err; err != nil {
		s.m.mu.Unlock()
		return err
	}
	s.finish(errSpent)
	s.m.mu.Unlock()
	return s.m.submit(ctx, &s.m.bulk, RawFrame{Kind: KindEnd, Stream: s.id})
}

// Reset aborts the stream, unless it has ended. It does not wait.
func (s *SendStream) Reset(reason string) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if s.err != nil {
		return
	}
	s.finish(errSpent)
	// A full queue means that the connection is about to end anyway.
	_ = s.m.post(resetFrame(s.id, reason))
}

// finish takes the stream and its waiting frames out of the mux. m.mu is held.
func (s *SendStream) finish(err error) {
	s.err = err
	delete(s.m.sending, s.id)
	for _, j := range s.m.bulk.remove(func(j *job) bool { return j.frame.Stream == s.id }) {
		j.finish(err)
	}
	s.nudge()
}

func (s *SendStream) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// granted handles a credit frame. Credit for a stream that has ended was under way.
func (m *Mux) granted(id uint32, n int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.own(id) || id >= m.next {
		return violation("credit on stream %d, which was never opened", id)
	}
	s, ok := m.sending[id]
	if !ok {
		return nil
	}
	if s.credit+n > maxWindow {
		return violation("credit of %d bytes on stream %d", s.credit+n, id)
	}
	s.credit += n
	s.nudge()
	return nil
}

// stopped handles the receiver's reset of a stream of this side.
func (m *Mux) stopped(id uint32, reason *ResetError) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if id >= m.next {
		return violation("reset of stream %d, which was never opened", id)
	}
	if s, ok := m.sending[id]; ok {
		s.finish(reason)
	}
	return nil
}

// copyFrom sends what r yields until it ends. readErr is an error of r, sendErr
// one of the stream.
func (s *SendStream) copyFrom(ctx context.Context, r io.Reader) (readErr, sendErr error) {
	buf := make([]byte, MaxPayload)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if sendErr := s.Send(ctx, buf[:n]); sendErr != nil {
				return nil, sendErr
			}
		}
		switch {
		case err == io.EOF: //nolint:errorlint // the contract of io.Reader
			return nil, s.End(ctx)
		case err != nil:
			return err, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		}
	}
}
