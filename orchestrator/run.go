package orchestrator

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// Run executes code when its turn comes and passes its events to emit, in
// order, on the calling goroutine, until it returns. A slow emit keeps neither
// the run nor its clock waiting; it delays its own Run's return.
//
// Once a run was accepted there is a Result with a Cause, also for one that
// never began because ctx, Interrupt, Close or the loss of its backend came first. The error is nil then,
// with one exception: what emit returned comes back beside the Result, and has
// ended the run. Without a Result the error is ErrBusy, ErrClosed, ErrTooLarge,
// ErrTimeoutRange, or says why no instance could be started.
func (s *Session) Run(ctx context.Context, req RunRequest, emit func(wire.Event) error) (Result, error) {
	limit, err := s.o.now().limit(req, s.spec.trial)
	if err != nil {
		return Result{}, err
	}
	r := Result{Run: cmp.Or(req.ID, newRunID()), State: wire.StateKept}
	joined := time.Now()
	release, err := s.take(ctx, req.Accepted)
	r.Queued = time.Since(joined)
	if err != nil {
		return s.unbegun(ctx, r, err)
	}
	asked, ask := context.WithCancel(context.Background())
	b, before, err := s.begin(ctx, asked, ask, r.Run, req)
	if err != nil {
		interrupted := asked.Err() != nil
		ask()
		release()
		if interrupted {
			err = errAsked
		}
		return s.unbegun(ctx, r, err)
	}

	v := &supervisor{
		s: s, instance: b.instance, limits: b.limits, limit: limit,
		run:    wire.Run{ID: r.Run, Source: req.Source, Filename: req.Filename, Argv: req.Argv, Once: req.Once, Limit: s.o.now().runnerLimit(limit)},
		outlet: newOutlet(r.Run, b.limits.OutputKept), reading: readBefore(b.instance),
		ended: make(chan ending, 1), over: make(chan struct{}),
	}
	s.recordBegin(r.Run)
	if req.Began != nil {
		req.Began()
	}
	before.passing = s.passing
	answer := make(chan outcome, 1)
	s.work.Go(func() {
		// Not ended by the caller's context: that is the supervisor's to handle, with an account of the run.
		exit, err := v.instance.Run(context.WithoutCancel(ctx), v.run, v.outlet.put)
		v.ended <- ending{exit, err}
	})
	s.work.Go(func() {
		// The interpreter is free when the run has ended, however long emit takes.
		defer release()
		defer ask()
		o := v.watch(ctx, asked)
		o.notCarried = s.bringBack(v, req.Carrying)
		o.full = s.stillFull(o.verdict.Cause, req.Once)
		s.settle(v, o)
		s.recordEnd()
		v.outlet.end()
		answer <- o
	})
	emitErr := v.outlet.deliver(ctx, emit)
	return v.result(r, b.stamp, before, <-answer), emitErr
}

// begin takes the instance for a run, a fresh one if need be; the caller has
// the interpreter. From here on Interrupt reaches the run.
func (s *Session) begin(ctx, asked context.Context, ask context.CancelFunc, run wire.RunID, req RunRequest) (b bound, earlier past, err error) {
	s.mu.Lock()
	s.active, s.current = ask, run
	s.mu.Unlock()
	opening, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(asked, func() { cancel(errAsked) })()

	err = s.ready(opening, req.Carrying)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		err = errSentAway
	}
	if err == nil && req.Permit != nil {
		err = req.Permit(s.bound.posture, s.bound.resolution)
	}
	if err != nil {
		s.active, s.current = nil, ""
		return bound{}, past{}, err
	}
	earlier = past{fresh: s.renewed, missed: s.missed, first: s.runs == 0}
	s.missed, s.renewed = "", false
	s.runs++
	s.move(eventRun)
	return s.bound, earlier, nil
}

// past is what a run finds of those before it.
type past struct {
	fresh   bool   // it is the first in its instance, and there was another one
	missed  string // why the variables of earlier runs are gone; empty: they are there
	first   bool   // nothing ran in the session before
	passing bool   // nothing runs in it afterwards
}

// errAsked says that Interrupt came before the run had begun.
var errAsked = errors.New("interrupted")

// unbegun answers a run that never began.
func (s *Session) unbegun(ctx context.Context, r Result, err error) (Result, error) {
	var lost *sandbox.Lost
	switch {
	case errors.Is(err, errAsked):
		r.Cause, r.Detail = sandbox.Interrupted, "it was interrupted before it began"
	case errors.Is(err, errSentAway):
		r.Cause, r.Detail = sandbox.Cancelled, s.endedBy()+", before the run began"
	case ctx.Err() != nil && !errors.Is(err, ErrClosed):
		r.Cause, r.Detail = sandbox.Cancelled, CancelledBy(ctx, " before it began")
	case errors.As(err, &lost) && lost.Ending.Cause == sandbox.BackendLost:
		r.Cause, r.Detail, r.State = sandbox.BackendLost, err.Error()+"; the run had not begun", wire.StateLost
	default:
		return Result{}, fmt.Errorf("run: %w", s.closedError(err))
	}
	r.Stamp = s.latest().stamp
	return r, nil
}

// settle gives the session the state that a run left it in.
func (s *Session) settle(v *supervisor, o outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active, s.current = nil, ""
	if o.alive {
		if o.exit.State == wire.StateLost { // the interpreter is another one in the same instance
			s.missed = "the run before ended with its interpreter"
			if d := o.verdict.Detail; d != "" {
				s.missed += " (" + d + ")"
			}
		}
		s.move(eventEnd)
		return
	}
	s.move(eventLost)
	switch {
	case o.seen && v.run.Once:
		s.loss = "the run before was a whole program and its interpreter ended with it"
	case o.verdict.Detail != "":
		s.loss = "the run before ended with its instance (" + o.verdict.Detail + ")"
	default:
		s.loss = "the run before ended with its instance"
	}
	switch {
	case v.done[stepClose]:
	case o.seen: // it answered, and is spent
		s.retire(v.instance)
	default:
		s.part(v.instance)
	}
}

// result puts together what brig saw and what the runner said.
func (v *supervisor) result(r Result, st Stamp, before past, o outcome) Result {
	r.Cause, r.RunnerReported = o.verdict.Cause, o.verdict.RunnerReported
	r.Detail, r.Elapsed, r.Stamp = join(append([]string{o.verdict.Detail, o.full, before.words(), v.cost(before, o)}, o.notCarried.notes...)...), o.elapsed, st
	r.NotCarried, r.NotBrought = o.notCarried.notes, o.notCarried.lost
	r.Stdout, r.Stderr, r.Displays = v.outlet.stdout, v.outlet.stderr, v.outlet.displays
	r.Stdout.Incomplete, r.Stderr.Incomplete = !o.seen, !o.seen
	r.State = wire.StateLost
	if o.seen {
		r.Log, r.Exception = o.exit.Log, o.exit.Exception
		if !before.fresh || o.exit.State == wire.StateEnded {
			r.State = o.exit.State
		}
		if !o.alive && r.State == wire.StateKept {
			r.State = wire.StateLost
		}
		switch r.Cause {
		case sandbox.Exit:
			r.Status = o.exit.Status
		case sandbox.Killed, sandbox.MemoryOut:
			r.Status, r.Signal = o.exit.Status, o.exit.Signal
		}
	}
	return r
}

// words say that variables of earlier runs are gone, to the first run that would miss them.
func (p past) words() string {
	if p.missed == "" {
		return ""
	}
	return "earlier variables are gone: " + p.missed
}

// cost says that this run has cost the session its variables, where somebody comes
// to miss them.
func (v *supervisor) cost(before past, o outcome) string {
	switch {
	case before.passing, before.first && v.run.Once, v.first == stopClose && !v.s.parked():
		return ""
	case o.alive && o.exit.State != wire.StateLost:
		return ""
	case v.run.Once && before.missed != "":
		return "" // there were none
	}
	return "the session's variables are gone with it"
}

// newRunID is used once in the world, so that it can be looked for in any log.
func newRunID() wire.RunID {
	var b [8]byte
	rand.Read(b[:]) // never fails: it ends the program instead
	return wire.RunID("run-" + hex.EncodeToString(b[:]))
}

// NewRunID is the ID of a run that is yet to be asked for.
func NewRunID() wire.RunID { return newRunID() }
