package wire

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// killGrace is how long a run may take to end after a hard interrupt.
const killGrace = 2 * time.Second

// atOnce is the longest source that travels in one piece with the request to run it.
const atOnce = 32 << 10

// activeRun is the run between its message and its exit.
type activeRun struct {
	id       RunID
	foreign  bool // asked for by another Peer, before Resume: it has no ring
	ring     *ring
	displays displays
	started  bool
	exit     *Exit         // seen, but displays may be on their way
	over     chan struct{} // closed with the exit seen and all displays complete
	refused  chan struct{} // closed when emit has failed
}

// live reports whether output belongs to this run.
func (a *activeRun) live() bool { return a.started && a.exit == nil && !a.foreign }

// Run executes code and passes its events to emit, in order, on the calling
// goroutine, and never after it has returned. A slow emit loses output, not
// time: see EventGap. An error of emit or the end of ctx kills the run by force,
// and is returned, wrapped, once the exit was seen; so is output before a
// deadline, which emit still receives. *LostError: no exit was seen.
func (p *Peer) Run(ctx context.Context, r Run, emit func(Event) error) (Exit, error) {
	if len(r.Source) > MaxCode {
		return Exit{}, fmt.Errorf("start a run: the source has %d bytes, at most %d", len(r.Source), MaxCode)
	}
	if ctx.Err() != nil {
		return Exit{}, fmt.Errorf("start a run: %w", context.Cause(ctx))
	}
	a, code, err := p.begin(r)
	if err != nil {
		return Exit{}, err
	}
	var (
		helpers sync.WaitGroup
		killed  error
	)
	sending, stop := context.WithCancel(context.Background())
	if code != nil {
		helpers.Go(func() {
			if code.Send(sending, r.Source) == nil {
				_ = code.End(sending)
			}
			code.Reset("the run is over") // nothing, unless it was cut short
		})
	}
	helpers.Go(func() {
		defer a.ring.close(a.id)
		defer stop()
		killed = p.watch(ctx, stop, a)
	})
	delivered := false
	defer func() {
		if !delivered { // emit panicked: nobody is left to say how the run ends
			p.mux.fail(errEmitGone)
		}
	}()
	emitErr := a.deliver(emit)
	delivered = true
	helpers.Wait()
	return p.finish(a, r, emitErr, killed)
}

// begin makes r the current run and announces it. A short source goes with it;
// otherwise its stream is returned.
func (p *Peer) begin(r Run) (*activeRun, *SendStream, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.mux.Err() != nil:
		return nil, nil, p.lost()
	case !p.greeted:
		return nil, nil, errors.New("start a run: hello comes first")
	case p.running:
		return nil, nil, ErrBusy
	case p.ended:
		return nil, nil, &LostError{Err: ErrEnded}
	case r.ID == p.lastID:
		return nil, nil, fmt.Errorf("start a run: the id %s was used before", r.ID)
	}
	a := &activeRun{id: r.ID, ring: newRing(p.o.RingBytes), over: make(chan struct{}), refused: make(chan struct{})}
	a.displays = displays{limit: p.limit, ring: a.ring}
	message := func(code *SendStream) Message {
		return RunMessage{ID: r.ID, Code: code.ID(), Size: int64(len(r.Source)), Filename: r.Filename, Argv: r.Argv, Once: r.Once, Limit: r.Limit}
	}
	var code *SendStream
	var err error
	if len(r.Source) <= atOnce {
		err = p.mux.announceWhole(r.Source, message)
	} else {
		var streams []*SendStream
		streams, err = p.mux.Announce(1, func(code []*SendStream) Message { return message(code[0]) })
		if err == nil {
			code = streams[0]
		}
	}
	if err != nil {
		return nil, nil, p.orLost(err)
	}
	p.current, p.running, p.lastID = a, true, r.ID
	return a, code, nil
}

// finish makes room for the next run and decides what the caller is told.
func (p *Peer) finish(a *activeRun, r Run, emitErr, killed error) (Exit, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = false
	p.current = nil
	select {
	case <-a.over:
	default:
		return Exit{}, p.lost()
	}
	p.ended = r.Once
	switch {
	case emitErr != nil:
		return *a.exit, fmt.Errorf("pass on an event: %w", emitErr)
	case killed != nil:
		return *a.exit, fmt.Errorf("wait for the run: %w", killed)
	default:
		return *a.exit, nil
	}
}

// deliver passes events to emit until there are no more; after an error it only empties the ring.
func (a *activeRun) deliver(emit func(Event) error) (failed error) {
	for {
		e, ok := a.ring.next()
		if !ok {
			return failed
		}
		if failed == nil {
			if failed = emit(e); failed != nil {
				close(a.refused)
			}
		}
		a.ring.recycle(e)
	}
}

// watch waits for the end of the run and kills it where its caller gives up. It
// returns the cause of ctx where that was the reason.
func (p *Peer) watch(ctx context.Context, stopSending func(), a *activeRun) (cause error) {
	select {
	case <-a.over:
		return nil
	case <-p.mux.Done():
		return nil
	case <-ctx.Done():
		cause = context.Cause(ctx)
	case <-a.refused:
	}
	stopSending()
	p.kill(a)
	return cause
}

// kill interrupts a run by force until it ends or killGrace is over; then the
// connection is closed, because the runner cannot be believed any more. The
// interrupt is repeated: one that overtakes the start of its run may find nothing.
func (p *Peer) kill(a *activeRun) {
	deadline := time.NewTimer(killGrace)
	defer deadline.Stop()
	for wait := 50 * time.Millisecond; ; wait *= 2 {
		p.calls.abandoned(p.mux, Control{Op: OpInterrupt, Args: ControlArgs{Run: a.id, Level: Hard, Sweep: true}})
		again := time.NewTimer(wait)
		select {
		case <-a.over:
			again.Stop()
			return
		case <-p.mux.Done():
			again.Stop()
			return
		case <-deadline.C:
			again.Stop()
			p.mux.fail(errNoExit)
			return
		case <-again.C:
		}
	}
}

// onStarted opens the run for output; what came before it is late output of an earlier one.
func (p *Peer) onStarted(m StartedMessage) error {
	a := p.current
	if a == nil || a.id != m.Run || a.started || a.exit != nil {
		return violation("start of run %s, which was not asked for", m.Run)
	}
	a.started = true
	for _, e := range p.late.take() {
		a.ring.add(e)
	}
	return nil
}

func (p *Peer) onGap(m GapMessage) error {
	stream, _ := outputStream(m.Name)
	switch a := p.current; {
	case a != nil && a.id == m.Run && a.live():
		a.ring.gap(a.id, stream, m.Bytes)
	case m.Run == p.late.run && (a == nil || !a.live()):
		p.late.gap(stream, m.Bytes)
	default:
		return violation("gap in run %s, which is not running", m.Run)
	}
	return nil
}

func (p *Peer) onExit(m Exit) error {
	a := p.current
	if a == nil || a.id != m.Run || a.exit != nil {
		return violation("exit of run %s, which is not running", m.Run)
	}
	a.exit = &m
	if a.foreign {
		p.current, p.running, p.foreign = nil, false, a
		p.ended = p.ended || m.State == StateEnded
		close(a.over)
		return nil
	}
	p.late.run = a.id
	a.displays.whenComplete(func() {
		a.ring.close(a.id)
		close(a.over)
	})
	return nil
}
