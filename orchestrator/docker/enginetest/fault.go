package enginetest

import (
	"context"
	"net/http"
	"sync"
)

// Op is a kind of request.
type Op string

const (
	Ping          Op = "ping"
	Version       Op = "version"
	Info          Op = "info"
	Build         Op = "build"
	ListImages    Op = "images"
	InspectImage  Op = "image"
	RemoveImage   Op = "rmi"
	TagImage      Op = "tag"
	List          Op = "list"
	Create        Op = "create"
	Inspect       Op = "inspect"
	Attach        Op = "attach"
	Start         Op = "start"
	Wait          Op = "wait"
	KillContainer Op = "kill"
	PauseOp       Op = "pause"
	UnpauseOp     Op = "unpause"
	Remove        Op = "remove"
	Prune         Op = "prune"
	Events        Op = "events"
)

// Fault is what happens to requests of one kind. Without any of the fields that
// replace the answer, a request only waits, if it has to, and is then answered.
type Fault struct {
	Op Op
	// Times is how many requests meet it; 0: every one, until Clear.
	Times int
	// After lets the request have its effect first: the fault is in the answer only.
	After bool
	// Hold makes the request wait until Release, the end of the engine or of the client.
	Hold bool
	// Status and Message replace the answer by an error in the engine's own form.
	Status  int
	Message string
	// Body replaces the answer's body, with status 200.
	Body string
	// Raw replaces the whole answer, status line included; the connection ends after it.
	Raw string
	// Cut ends the connection without an answer.
	Cut bool
	// CutAfter ends the connection after so many bytes of the answer, of a stream
	// after so many of what follows its handshake.
	CutAfter int
	// NoEnd, of an attach: the stream stays open when the container has ended.
	NoEnd bool
}

// Injected is a Fault in force.
type Injected struct {
	fault    Fault
	e        *Engine
	met      chan struct{}
	meeting  sync.Once
	released chan struct{}
	release  sync.Once
	left     int // guarded by Engine.mu; -1: any number
}

// Inject puts a fault in force. Of several for one kind of request the first counts.
func (e *Engine) Inject(f Fault) *Injected {
	i := &Injected{fault: f, e: e, met: make(chan struct{}), released: make(chan struct{}), left: -1}
	if f.Times > 0 {
		i.left = f.Times
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.faults = append(e.faults, i)
	return i
}

// Met is closed when the first request has met the fault; with After, when it has
// had its effect.
func (i *Injected) Met() <-chan struct{} { return i.met }

// Release lets every request that is held go on, and later ones pass.
func (i *Injected) Release() { i.release.Do(func() { close(i.released) }) }

// Clear ends the fault; what it holds is released.
func (i *Injected) Clear() {
	i.Release()
	i.e.mu.Lock()
	defer i.e.mu.Unlock()
	i.left = 0
}

func (e *Engine) fault(op Op) *Injected {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.requests = append(e.requests, string(op))
	for _, i := range e.faults {
		if i.fault.Op == op && i.left != 0 {
			if i.left > 0 {
				i.left--
			}
			return i
		}
	}
	return nil
}

// replaces tells whether there is another answer than the engine's.
func (f Fault) replaces() bool { return f.Status != 0 || f.Body != "" || f.Raw != "" || f.Cut }

// wait announces the request and holds it; false: do not answer any more.
func (i *Injected) wait(ctx context.Context, d *daemon) bool {
	i.meeting.Do(func() { close(i.met) })
	if !i.fault.Hold {
		return true
	}
	select {
	case <-i.released:
		return d.pass()
	case <-ctx.Done():
		// The client has gone. A real daemon carries out what it was asked all the same,
		// when it comes to it.
		select {
		case <-i.released:
			return d.pass()
		case <-d.gone:
			return false
		}
	case <-d.gone:
		return false
	}
}

// answer gives the replaced answer.
func (i *Injected) answer(e *Engine, w http.ResponseWriter) {
	f := i.fault
	switch {
	case f.Status != 0:
		e.fail(w, f.Status, f.Message)
	case f.Body != "":
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(f.Body))
	default:
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic("BUG: a connection cannot be taken over: " + err.Error())
		}
		_, _ = c.Write([]byte(f.Raw))
		_ = c.Close()
	}
}
