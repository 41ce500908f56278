package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

// PeerOptions configure a Peer.
type PeerOptions struct {
	// RingBytes bounds the events that wait for emit before output is dropped; 0 means 8 MiB.
	RingBytes int
	// DisplayBytes bounds the displays of one run together after Resume; 0 means
	// MaxBundle. With Hello it is the bound that was said there.
	DisplayBytes int64
	// Close closes the transport, so that blocked reads and writes return. It is
	// called once and must not call back. Nil: r and w are closed where they can be.
	Close func() error
}

// Peer is brig's end of the connection to one runner. All methods may be called
// concurrently. The reader never waits for a caller of Peer; when the connection
// ends, everything that is under way ends with a *LostError.
type Peer struct {
	o   PeerOptions
	mux *Mux

	readerDone chan struct{}
	calls      calls

	mu       sync.Mutex
	hello    bool // sent
	limit    int64
	ready    chan Ready   // capacity 1
	resuming chan Resumed // capacity 1; nil: the conversation began with hello
	greeted  bool         // ready or resumed was seen
	running  bool         // Run has not returned yet, or a foreign run is not over
	ended    bool         // a Once run is over
	lastID   RunID
	current  *activeRun // sent, and its exit not seen
	foreign  *activeRun // of the conversation before, when it is over
	late     lateOutput
}

// NewPeer starts to read from r. Close must be called in the end.
func NewPeer(r io.Reader, w io.Writer, o PeerOptions) *Peer {
	p := newPeer(r, w, o)
	p.serve()
	return p
}

func newPeer(r io.Reader, w io.Writer, o PeerOptions) *Peer {
	p := &Peer{o: o, ready: make(chan Ready, 1), readerDone: make(chan struct{})}
	p.calls.init()
	p.mux = NewMux(r, w, MuxOptions{Role: RoleBrig, Message: p.message, Output: p.output, Close: o.Close})
	return p
}

func (p *Peer) serve() {
	go func() {
		defer close(p.readerDone)
		_ = p.mux.Serve() // Err tells why it ended
	}()
}

// Done is closed when the connection has ended, for whatever reason.
func (p *Peer) Done() <-chan struct{} { return p.mux.Done() }

// Err is nil until Done is closed. Then it is ErrClosed after Close, and
// otherwise what LostError describes.
func (p *Peer) Err() error { return p.mux.Err() }

// Close ends the connection and waits until nothing of the Peer runs any more.
// It is idempotent, bounded and may overlap everything.
func (p *Peer) Close() error {
	err := p.mux.Close()
	return errors.Join(err, waitFor(p.readerDone))
}

// lost is why something ended before its end. The connection has ended.
func (p *Peer) lost() error { return &LostError{Err: p.mux.Err()} }

// orLost turns the error of a dead connection into a *LostError.
func (p *Peer) orLost(err error) error {
	select {
	case <-p.mux.Done():
		return p.lost()
	default:
		return err
	}
}

// Hello opens the conversation; it may be called once, before anything else. A
// zero version means this one. *VersionError: the runner speaks another.
func (p *Peer) Hello(ctx context.Context, h Hello) (Ready, error) {
	if h.Version == 0 {
		h.Version = Version
	}
	p.mu.Lock()
	if p.hello {
		p.mu.Unlock()
		return Ready{}, errors.New("say hello: it was said already")
	}
	p.hello = true
	p.limit = h.Bounds.Display
	if p.limit == 0 {
		p.limit = MaxBundle
	}
	p.mu.Unlock()
	if err := p.mux.Post(h); err != nil {
		return Ready{}, p.orLost(err)
	}
	select {
	case r := <-p.ready:
		return checkVersion(r)
	case <-ctx.Done():
		return Ready{}, context.Cause(ctx)
	case <-p.mux.Done():
	}
	select { // a runner may refuse and leave
	case r := <-p.ready:
		return checkVersion(r)
	default:
		return Ready{}, p.lost()
	}
}

func checkVersion(r Ready) (Ready, error) {
	if r.Version != Version {
		return Ready{}, &VersionError{Ours: Version, Theirs: r.Version}
	}
	return r, nil
}

// TakeLate returns output that arrived outside of any run and was not passed to
// a later one yet. Its data belongs to the caller.
func (p *Peer) TakeLate() []Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.late.take()
}

// output takes a piece of a standard stream, on the reader goroutine.
func (p *Peer) output(stream uint32, data []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch a := p.current; {
	case a != nil && a.foreign: // it has no reader any more
	case a != nil && a.live():
		a.ring.output(a.id, stream, data)
	default:
		p.late.output(stream, data)
	}
	return nil
}

// message handles one control message, on the reader goroutine.
func (p *Peer) message(m Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, ok := m.(Ready); ok {
		if !p.hello || p.greeted || p.resuming != nil {
			return violation("ready that nobody asked for")
		}
		p.greeted = r.Version == Version
		p.ready <- r
		if !p.greeted {
			return &VersionError{Ours: Version, Theirs: r.Version}
		}
		return nil
	}
	if m, ok := m.(ResumedMessage); ok {
		return p.onResumed(m)
	}
	if !p.greeted {
		return violation("%s message before ready", m.messageType())
	}
	switch m := m.(type) {
	case StartedMessage:
		return p.onStarted(m)
	case GapMessage:
		return p.onGap(m)
	case DisplayMessage:
		a := p.current
		if a == nil || a.id != m.Run || !a.live() {
			return violation("display of run %s, which is not running", m.Run)
		}
		return a.displays.announce(p.mux, m)
	case Exit:
		return p.onExit(m)
	case ReplyMessage:
		return p.onReply(m)
	default:
		panic(fmt.Sprintf("BUG: the decoder let a %s message through", m.messageType()))
	}
}
