package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// supervisor watches one run and ends it where it must. It waits neither for
// the runner nor for the caller: what either of them does not do in time is
// done without them.
type supervisor struct {
	s        *Session
	instance sandbox.Instance
	run      wire.Run
	limit    time.Duration
	limits   sandbox.Limits
	outlet   *outlet
	reading  reading // of the instance's counters, before the run

	ended chan ending   // of Instance.Run; it has room for one
	over  chan struct{} // closed when the supervision ends

	first     stop   // the cause, once brig has decided to end the run
	why       string // words for it
	delivered atomic.Bool
	softly    <-chan struct{} // closed when the soft interrupt has arrived or failed; nil: none was sent
	due       [steps]time.Time
	done      [steps]bool
}

// ending is what Instance.Run returned.
type ending struct {
	exit wire.Exit
	err  error
}

// outcome is what becomes of a run.
type outcome struct {
	verdict verdict
	exit    wire.Exit // what the runner said, if it did
	seen    bool
	alive   bool // the instance can take another run
	elapsed time.Duration
	full    string // says that the workspace is over its limit, and how to free it
	// notCarried says which files are not the same on both sides of a Detached instance.
	notCarried uncarried
}

// The steps of an end, each with the time when it is due.
const (
	stepHard   = iota // interrupt by force
	stepClose         // close the instance: the runner does not answer
	stepAnswer        // answer without an end: the backend does not either
	steps
)

// watch returns when the run has ended, or when its answer cannot wait any longer.
func (v *supervisor) watch(ctx, asked context.Context) outcome {
	defer close(v.over)
	started := time.Now()
	limit, step := time.NewTimer(v.limit), time.NewTimer(v.limit)
	defer limit.Stop()
	defer step.Stop()
	cancelled, interrupted, closing, failed := ctx.Done(), asked.Done(), v.s.life.Done(), v.outlet.failed
	for {
		reason, why := stopNone, ""
		select {
		case e := <-v.ended:
			return v.finish(e, started)
		case <-limit.C:
			reason = stopTimeout
		case <-interrupted:
			reason, interrupted = stopInterrupt, nil
		case <-cancelled:
			reason, why, cancelled = stopCancel, CancelledBy(ctx, ""), nil
		case <-closing:
			reason, why, closing = stopClose, v.s.endedBy(), nil
		case <-failed:
			failed = nil
			reason, why = v.outlet.cut()
		case <-step.C:
		}
		select {
		case e := <-v.ended: // it had ended already: that was not brig's doing
			return v.finish(e, started)
		default:
		}
		if reason != stopNone {
			v.stop(reason, why)
		}
		if v.advance() {
			return v.abandon(started)
		}
		v.schedule(step)
	}
}

// stop notes a reason to end the run and plans the steps. A later reason never
// puts off what an earlier one has planned.
func (v *supervisor) stop(reason stop, why string) {
	if v.first == stopNone {
		v.first, v.why = reason, why
	}
	v.s.mu.Lock()
	v.s.move(eventInterrupt)
	v.s.mu.Unlock()
	switch set := v.s.o.now(); reason {
	case stopTimeout:
		v.soften()
		v.plan(stepHard, set.timeoutGrace)
		v.plan(stepClose, set.timeoutGrace+closeAfterHard)
		v.plan(stepAnswer, set.timeoutGrace+answerAfterHard)
	case stopInterrupt:
		v.soften()
		v.plan(stepHard, set.interruptGrace)
		v.plan(stepClose, set.interruptGrace+closeUnhurried)
		v.plan(stepAnswer, set.interruptGrace+answerUnhurried)
	case stopCancel, stopEmit, stopOutput:
		v.plan(stepHard, 0)
		v.plan(stepClose, closeUnhurried)
		v.plan(stepAnswer, answerUnhurried)
	case stopClose:
		v.plan(stepAnswer, answerUnhurried) // Session.Close closes the instance itself
		if v.s.parked() {                   // the instance stays
			grace := min(set.interruptGrace, parkGrace)
			v.soften()
			v.plan(stepHard, grace)
			v.plan(stepClose, grace+closeUnhurried)
		}
	case stopNone:
		panic("BUG: a run was stopped for no reason")
	}
}

func (v *supervisor) plan(step int, after time.Duration) {
	if at := time.Now().Add(after); v.due[step].IsZero() || at.Before(v.due[step]) {
		v.due[step] = at
	}
}

// soften sends the one soft interrupt of a run.
func (v *supervisor) soften() {
	if v.softly == nil {
		v.softly = v.interrupt(wire.Soft)
	}
}

// advance takes the steps that are due; true: the answer is.
func (v *supervisor) advance() (answer bool) {
	now := time.Now()
	for step, at := range v.due {
		if at.IsZero() || v.done[step] || now.Before(at) {
			continue
		}
		v.done[step] = true
		switch step {
		case stepHard:
			v.interrupt(wire.Hard)
		case stepClose:
			v.s.mu.Lock()
			v.s.retire(v.instance)
			v.s.mu.Unlock()
		case stepAnswer:
			return true
		}
	}
	return false
}

// schedule sets the timer to the next step.
func (v *supervisor) schedule(timer *time.Timer) {
	next := time.Now().Add(v.limit)
	for step, at := range v.due {
		if !at.IsZero() && !v.done[step] && at.Before(next) {
			next = at
		}
	}
	timer.Reset(time.Until(next))
}

// interrupt sends an interrupt beside the supervision: a runner that does not
// read must not keep the clock from ticking. One that overtakes the start of its
// run finds nothing and is sent again until the run ends.
func (v *supervisor) interrupt(level wire.Level) <-chan struct{} {
	sent := make(chan struct{})
	v.s.work.Go(func() {
		defer close(sent)
		ctx, cancel := bounded(context.Background(), closeUnhurried)
		defer cancel()
		for {
			err := v.instance.Interrupt(ctx, v.run.ID, level, true)
			if err == nil {
				v.delivered.Store(true)
			}
			if !errors.Is(err, sandbox.ErrNotRunning) {
				return // arrived, or the instance is going: then the next step finds out
			}
			again := time.NewTimer(interruptAgain)
			select {
			case <-again.C:
			case <-v.over:
				again.Stop()
				return
			case <-ctx.Done():
				again.Stop()
				return
			}
		}
	})
	return sent
}

// finish judges a run whose end, or whose loss, was seen.
func (v *supervisor) finish(e ending, started time.Time) outcome {
	o := outcome{exit: e.exit, elapsed: time.Since(started)}
	if v.first == stopNone {
		// Instance.Run may return what brig caused before the supervision hears of it.
		v.first, v.why = v.outlet.cut()
	}
	if v.first == stopNone && e.err != nil && v.s.life.Err() != nil {
		v.first, v.why = stopClose, v.s.endedBy()
	}
	ev := v.evidence()
	ev.Counted = v.reading.since()
	v.account(e, &ev, &o)
	if o.seen && v.softly != nil && !v.delivered.Load() {
		// Whether the interrupt or the end came first is about to be known.
		patience := time.NewTimer(interruptAgain)
		defer patience.Stop()
		select {
		case <-v.softly:
		case <-patience.C:
		}
	}
	ev.Delivered = v.delivered.Load()
	o.verdict = classify(e.exit, ev)
	return o
}

// account finds out whether an end was seen and whether the instance lives.
func (v *supervisor) account(e ending, ev *evidence, o *outcome) {
	var lost *sandbox.Lost
	isLost := errors.As(e.err, &lost)
	switch {
	case e.exit.Run == v.run.ID && !isLost:
		// An error beside an end is the one that brig itself caused.
		o.seen = true
		o.alive = !v.done[stepClose] && e.exit.State != wire.StateEnded && !isDone(v.instance)
	case isLost:
		ev.Ending = lost.Ending
	case errors.Is(e.err, sandbox.ErrClosed):
	case e.err == nil:
		ev.Fault = fmt.Errorf("the instance told the end of run %q instead of %q", e.exit.Run, v.run.ID)
	default:
		ev.Fault = e.err
	}
	ev.Seen = o.seen
	if !o.seen && ev.Ending.Cause == "" && isDone(v.instance) {
		ev.Ending = v.instance.Cause()
	}
}

// abandon answers a run that has not ended; its instance is being closed.
func (v *supervisor) abandon(started time.Time) outcome {
	return outcome{verdict: classify(wire.Exit{}, v.evidence()), elapsed: time.Since(started)}
}

func (v *supervisor) evidence() evidence {
	return evidence{
		Stop: v.first, Why: v.why, Limit: v.limit, Limits: v.limits,
		Delivered: v.delivered.Load(),
	}
}

func isDone(i sandbox.Instance) bool {
	select {
	case <-i.Done():
		return true
	default:
		return false
	}
}
