package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"testing"
	"time"
)

// twoMuxes connects two of them without any buffer in between: a write waits for its read.
func twoMuxes(t *testing.T, brig, runner MuxOptions) (a, b *Mux) {
	t.Helper()
	before := runtime.NumGoroutine()
	ar, bw := io.Pipe()
	br, aw := io.Pipe()
	brig.Role, runner.Role = RoleBrig, RoleRunner
	a, b = NewMux(ar, aw, brig), NewMux(br, bw, runner)
	served := make(chan error, 2)
	go func() { served <- a.Serve() }()
	go func() { served <- b.Serve() }()
	t.Cleanup(func() {
		if err := errors.Join(a.Close(), b.Close()); err != nil {
			t.Errorf("close: %v", err)
		}
		<-served
		<-served
		settle(t, before)
	})
	return a, b
}

// announcePut opens a stream from brig in the only way there is.
func announcePut(t *testing.T, a *Mux, id string) *SendStream {
	t.Helper()
	s, err := a.Announce(1, func(s []*SendStream) Message { return CallMessage{ID: id, Op: OpPut, In: s[0].ID()} })
	if err != nil {
		t.Fatal(err)
	}
	return s[0]
}

func TestStreamsDoNotWaitForEachOther(t *testing.T) {
	streams := make(chan *RecvStream, 8)
	var b *Mux
	ready := make(chan struct{})
	a, m := twoMuxes(t, MuxOptions{}, MuxOptions{Message: func(m Message) error {
		<-ready
		s, err := b.Accept(m.(CallMessage).In)
		streams <- s
		return err
	}})
	b = m
	close(ready)

	full := announcePut(t, a, "c1")
	<-streams // and nobody reads it
	stuck := make(chan error)
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { stuck <- full.Send(ctx, make([]byte, InitialCredit+1)) }()

	content := bytes.Repeat([]byte("0123456789"), 500_000)
	other := announcePut(t, a, "c2")
	in := <-streams
	go func() {
		if err := other.Send(t.Context(), content); err != nil {
			t.Error(err)
		}
		if err := other.End(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	if got, err := io.ReadAll(in); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	select {
	case err := <-stuck:
		t.Errorf("sent beyond its credit: %v", err)
	default:
	}
	cause := errors.New("enough")
	cancel(cause)
	if err := <-stuck; !errors.Is(err, cause) {
		t.Errorf("send: %v", err)
	}
	full.Reset("enough")
	if err := full.End(t.Context()); err == nil {
		t.Error("a stream ended after its reset")
	}
}

func TestResetFromEitherSide(t *testing.T) {
	streams := make(chan *RecvStream, 8)
	ready := make(chan *Mux, 1)
	a, b := twoMuxes(t, MuxOptions{}, MuxOptions{Message: func(m Message) error {
		b := <-ready
		ready <- b
		s, err := b.Accept(m.(CallMessage).In)
		streams <- s
		return err
	}})
	ready <- b
	var reset *ResetError

	s := announcePut(t, a, "c1")
	in := <-streams
	if err := s.Send(t.Context(), []byte("half")); err != nil {
		t.Fatal(err)
	}
	s.Reset("the input \xff failed")
	got, err := io.ReadAll(in)
	if string(got) != "half" || !errors.As(err, &reset) || reset.Reason != "the input  failed" {
		t.Errorf("receiver: %q, %v", got, err)
	}

	// The receiver wants no more; what is under way, up to the credit, is no violation.
	s = announcePut(t, a, "c2")
	in = <-streams
	failed := make(chan error)
	go func() { failed <- s.Send(t.Context(), make([]byte, 10*InitialCredit)) }()
	if _, err := in.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	in.Reset("enough")
	if err := <-failed; !errors.As(err, &reset) || reset.Reason != "enough" {
		t.Errorf("sender: %v", err)
	}
	if _, err := in.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("read after reset: %v", err)
	}
	if a.Err() != nil || b.Err() != nil {
		t.Errorf("connection: %v, %v", a.Err(), b.Err())
	}
}

func TestOpenStreamsAreBounded(t *testing.T) {
	ready := make(chan *Mux, 1)
	a, b := twoMuxes(t, MuxOptions{}, MuxOptions{Message: func(m Message) error {
		b := <-ready
		ready <- b
		_, err := b.Accept(m.(CallMessage).In)
		return err
	}})
	ready <- b
	var streams []*SendStream
	for i := range MaxStreams {
		streams = append(streams, announcePut(t, a, fmt.Sprintf("c%d", i)))
	}
	build := func(s []*SendStream) Message { return CallMessage{ID: "x", Op: OpPut, In: s[0].ID()} }
	if _, err := a.Announce(1, build); err == nil {
		t.Error("one stream too many was opened")
	}
	streams[0].Reset("")
	s := announcePut(t, a, "again")
	if want := uint32(firstStream + 2*MaxStreams); s.ID() != want {
		t.Errorf("id %d, want %d", s.ID(), want)
	}
	streams[1].Reset("")
	if _, err := a.Announce(1, func([]*SendStream) Message { return CallMessage{} }); err == nil {
		t.Error("a bad announcement was sent")
	}
	if next := announcePut(t, a, "after"); next.ID() != s.ID()+2 {
		t.Errorf("id %d after a failed announcement, want %d", next.ID(), s.ID()+2)
	}
}

// TestControlOvertakesData reads frame by frame: once a control frame waits, at
// most the one data frame that is being written comes before it.
func TestControlOvertakesData(t *testing.T) {
	r, w := io.Pipe()
	m := NewMux(eternal{}, w, MuxOptions{Role: RoleBrig, Close: r.Close})
	defer func() { _ = m.Close() }()
	d := NewReader(r)
	var streams []*SendStream
	for i := range 4 {
		done := make(chan *SendStream)
		go func() { done <- announcePut(t, m, fmt.Sprintf("c%d", i)) }()
		if f, err := d.Next(); err != nil || f.Kind != KindControl {
			t.Fatal(f.Kind, err)
		}
		streams = append(streams, <-done)
	}
	for _, s := range streams {
		go func() { _ = s.Send(t.Context(), make([]byte, InitialCredit)) }()
	}
	waiting := func(q *queue, n int) {
		for { // the frames queue up behind the one that is being written
			m.mu.Lock()
			have := len(q.jobs)
			m.mu.Unlock()
			if have >= n {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}
	waiting(&m.bulk, 3)
	for i := range 3 {
		if err := m.Post(CallMessage{ID: "i", Op: OpInterrupt}); err != nil {
			t.Fatal(err)
		}
		data := 0
		for {
			f, err := d.Next()
			if err != nil {
				t.Fatal(err)
			}
			if f.Kind == KindControl {
				break
			}
			data++
		}
		if data > 1 {
			t.Errorf("interrupt %d waited for %d frames of data", i, data)
		}
		waiting(&m.bulk, 2)
	}
}

// eternal is a peer that never says a thing.
type eternal struct{}

func (eternal) Read([]byte) (int, error) { select {} }

func TestOwnFaultsPanic(t *testing.T) {
	for name, f := range map[string]func(){
		"role":   func() { NewMux(eternal{}, io.Discard, MuxOptions{}) },
		"output": func() { _ = (&Mux{o: MuxOptions{Role: RoleBrig}}).Output(1, nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

func TestWriteErrorLeavesTimeToRead(t *testing.T) {
	// The runner has said how it ended, and has gone: writing fails before that was read.
	r, fromRunner := io.Pipe()
	wrote := make(chan struct{})
	p := NewPeer(r, writerFunc(func(b []byte) (int, error) {
		if bytes.Contains(b, []byte(`"type":"run"`)) {
			close(wrote)
			return 0, io.ErrClosedPipe
		}
		return len(b), nil
	}), PeerOptions{Close: r.Close})
	defer func() { _ = p.Close() }()
	go func() {
		x := &raw{t: t, w: fromRunner}
		for p.afterHello() {
			runtime.Gosched()
		}
		x.ready()
		<-wrote
		x.json(`{"type":"started","run":"r1"}`)
		x.json(exitOf("r1"))
		_ = fromRunner.Close()
	}()
	if _, err := oneRun(t.Context(), p, func(Event) error { return nil }); err != nil {
		t.Errorf("run: %v", err)
	}
}

// afterHello reports whether hello is still to come.
func (p *Peer) afterHello() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.hello
}
