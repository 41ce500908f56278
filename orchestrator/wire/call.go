package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
)

const (
	maxCalls      = 16 // in flight, beside interrupts
	maxInterrupts = 8
	maxWaiting    = 1024 // with those that nobody waits for
)

// calls are the questions that wait for a reply.
type calls struct {
	slots      chan struct{}
	interrupts chan struct{}
	pings      chan struct{}

	mu      sync.Mutex
	last    uint64
	waiting map[string]*call
}

type call struct {
	id    string
	slots chan struct{} // where its slot goes back to; nil: it has none
	reply chan answer   // capacity 1; nil: nobody waits for the reply
}

type answer struct {
	ReplyMessage
	out *RecvStream
}

func (c *calls) init() {
	c.slots = make(chan struct{}, maxCalls)
	c.interrupts = make(chan struct{}, maxInterrupts)
	c.pings = make(chan struct{}, 1)
	c.waiting = make(map[string]*call)
}

// post sends a question and opens a stream where there is input for it.
func (c *calls) post(m *Mux, k *call, req Control, input bool) (*SendStream, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k.id = "c" + strconv.FormatUint(c.last+1, 10)
	message := CallMessage{ID: k.id, Op: req.Op, Args: req.Args}
	n := 0
	if input {
		n = 1
	}
	streams, err := m.Announce(n, func(streams []*SendStream) Message {
		for _, s := range streams {
			message.In = s.ID()
		}
		return message
	})
	if err != nil {
		return nil, err
	}
	c.last++
	c.waiting[k.id] = k
	if input {
		return streams[0], nil
	}
	return nil, nil
}

// abandoned sends a question whose reply does not matter.
func (c *calls) abandoned(m *Mux, req Control) {
	c.mu.Lock()
	waiting := len(c.waiting)
	c.mu.Unlock()
	if waiting > maxWaiting {
		m.fail(violation("no reply to %d calls", waiting))
		return
	}
	_, _ = c.post(m, &call{}, req, false) // fails when the connection has ended, or is about to
}

// forget gives up waiting for the reply. The slot stays taken until it comes.
func (c *calls) forget(k *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, waits := c.waiting[k.id]; waits {
		k.reply = nil
		return
	}
	if a := <-k.reply; a.out != nil {
		a.out.Reset("the call was given up")
	}
	k.release()
}

func (k *call) release() {
	if k.slots != nil {
		<-k.slots
	}
}

// onReply hands a reply to whoever waits for it, on the reader goroutine.
func (p *Peer) onReply(m ReplyMessage) error {
	c := &p.calls
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.waiting[m.ID]
	if !ok {
		return violation("reply to call %s, which does not wait for one", m.ID)
	}
	delete(c.waiting, m.ID)
	a := answer{ReplyMessage: m}
	if m.Out != 0 {
		var err error
		if a.out, err = p.mux.Accept(m.Out); err != nil {
			return err
		}
	}
	if k.reply != nil {
		k.reply <- a
		return nil
	}
	if a.out != nil {
		a.out.Reset("the call was given up")
	}
	k.release()
	return nil
}

// Call asks a question beside a run. in is read until it ends, out receives the
// output; both may be nil. A refusal is a *CallError. When ctx ends, or in or out
// fails, both streams are aborted and Call returns; a Read of in that blocks
// then may outlive the call, and what it yields is thrown away.
func (p *Peer) Call(ctx context.Context, req Control, in io.Reader, out io.Writer) (Reply, error) {
	return p.call(ctx, p.calls.slots, req, in, out)
}

// Ping returns when the runner has answered, whatever else it is asked at the same
// time: calls that wait take no turn from it. There is one at a time, so a ping
// without an answer keeps those after it from being sent.
//
// Any frame renews a Lease, and this is the one for whoever has nothing else to
// say: a third of the lease is a good interval. An instance that was paused for
// longer than its lease ends when it wakes, unless a frame waits for it by then.
func (p *Peer) Ping(ctx context.Context) error {
	_, err := p.call(ctx, p.calls.pings, Control{Op: OpPing}, nil, nil)
	var answered *CallError
	if errors.As(err, &answered) {
		return nil
	}
	return err
}

// Interrupt ends the given run softly or by force; it returns when the runner
// has passed it on, which is before the exit. ErrNotRunning: that run is not
// current, and no other was hit.
func (p *Peer) Interrupt(ctx context.Context, run RunID, level Level, sweep bool) error {
	if p.mux.Err() != nil {
		return p.lost()
	}
	p.mu.Lock()
	a := p.current
	running := a != nil && a.id == run && a.exit == nil
	p.mu.Unlock()
	if !running {
		return ErrNotRunning
	}
	_, err := p.call(ctx, p.calls.interrupts, Control{Op: OpInterrupt, Args: ControlArgs{Run: run, Level: level, Sweep: sweep}}, nil, nil)
	var refusal *CallError
	if errors.As(err, &refusal) && refusal.Code == CodeNotRunning {
		return ErrNotRunning
	}
	return err
}

func (p *Peer) call(ctx context.Context, slots chan struct{}, req Control, in io.Reader, out io.Writer) (Reply, error) {
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return Reply{}, fmt.Errorf("wait for earlier calls: %w", context.Cause(ctx))
	case <-p.mux.Done():
		return Reply{}, p.lost()
	}
	k := &call{slots: slots, reply: make(chan answer, 1)}
	feed, err := p.ask(k, req, in)
	if err != nil {
		k.release()
		return Reply{}, p.orLost(err)
	}
	defer feed.stop()
	var a answer
	select {
	case a = <-k.reply:
	case err := <-feed.failed:
		p.calls.forget(k)
		return Reply{}, fmt.Errorf("read the input: %w", err)
	case <-ctx.Done():
		p.calls.forget(k)
		return Reply{}, fmt.Errorf("wait for the reply: %w", context.Cause(ctx))
	case <-p.mux.Done():
		select { // the reply may have been the last that came
		case a = <-k.reply:
		default:
			return Reply{}, p.lost()
		}
	}
	defer k.release()
	feed.stop()
	select {
	case err := <-feed.failed: // the runner's refusal is only the answer to that
		if a.out != nil {
			a.out.Reset("the call was given up")
		}
		return Reply{}, fmt.Errorf("read the input: %w", err)
	default:
		return p.answered(ctx, a, out)
	}
}

// ask sends the question and starts to feed its input.
func (p *Peer) ask(k *call, req Control, in io.Reader) (*feed, error) {
	p.mu.Lock()
	greeted := p.greeted
	p.mu.Unlock()
	if !greeted {
		return nil, errors.New("call the runner: hello comes first")
	}
	stream, err := p.calls.post(p.mux, k, req, in != nil)
	if err != nil || in == nil {
		return &feed{}, err
	}
	return startFeed(stream, in), nil
}

// answered makes the result of a reply and receives its output.
func (p *Peer) answered(ctx context.Context, a answer, out io.Writer) (Reply, error) {
	if a.Error != nil {
		return Reply{}, a.Error
	}
	reply := Reply{Body: a.Body}
	if a.out == nil {
		return reply, nil
	}
	if out == nil {
		a.out.Reset("nobody wants the output")
		return reply, nil
	}
	stop := context.AfterFunc(ctx, func() { a.out.Reset("the call was given up") })
	defer stop()
	_, readErr, writeErr := a.out.copyTo(out)
	var reset *ResetError
	switch {
	case writeErr != nil:
		a.out.Reset("the output could not be written")
		return Reply{}, fmt.Errorf("write the output: %w", writeErr)
	case readErr == nil:
		return reply, nil
	case errors.As(readErr, &reset):
		return Reply{}, &CallError{Code: CodeFailed, Message: reset.Reason}
	case ctx.Err() != nil:
		return Reply{}, fmt.Errorf("receive the output: %w", context.Cause(ctx))
	default:
		return Reply{}, p.orLost(readErr)
	}
}

// feed sends the input of a call.
type feed struct {
	stream *SendStream
	cancel context.CancelFunc
	failed chan error // capacity 1: in could not be read
}

func startFeed(stream *SendStream, in io.Reader) *feed {
	ctx, cancel := context.WithCancel(context.Background())
	f := &feed{stream: stream, cancel: cancel, failed: make(chan error, 1)}
	// Nobody waits for it: a Read of in that blocks is the caller's to end. Everything else in it ends with stop.
	go func() {
		readErr, sendErr := stream.copyFrom(ctx, in)
		switch {
		case readErr != nil:
			f.failed <- readErr // first: the reply to what follows must not overtake it
			stream.Reset("the input could not be read: " + readErr.Error())
		case sendErr != nil:
			stream.Reset("the call was given up")
		}
	}()
	return f
}

// stop ends the feed, unless it has ended; in is not read any more.
func (f *feed) stop() {
	if f.stream == nil {
		return
	}
	f.cancel()
	f.stream.Reset("the call is over")
}
