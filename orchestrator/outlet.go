package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"brig/orchestrator/wire"
)

const (
	// outputSlack is how much more than promised may arrive before brig takes the
	// runner for hostile, in bytes per stream and for all displays of a run.
	outputSlack = 1 << 20
	// eventCost is what a gap or a display is charged beside its bytes, so that
	// their number is bounded as well.
	eventCost = 128
)

var (
	errAnswered = errors.New("the run has been answered")
	errFlood    = errors.New("more output than the limit allows")
)

// outlet stands between an instance's events and the caller's emit. The
// instance never waits for a slow caller, so that the end of a run is seen when
// it happens; the output bound, held here on brig's side, is what keeps the
// buffer small. Everything is counted where brig itself sees it.
type outlet struct {
	run  wire.RunID
	kept int64 // bytes per stream that the runner was told to keep

	failed chan struct{} // closed when why is set

	mu      sync.Mutex
	ready   sync.Cond
	events  []wire.Event // guarded by mu, as everything below
	ended   bool         // nothing more arrives
	why     stop         // stopEmit or stopOutput
	err     error        // of emit
	arrived map[wire.EventKind]int64

	stdout, stderr wire.Count
	displays       int
}

func newOutlet(run wire.RunID, kept int64) *outlet {
	o := &outlet{run: run, kept: kept, failed: make(chan struct{}), arrived: make(map[wire.EventKind]int64)}
	o.ready.L = &o.mu
	return o
}

// put is the emit that the instance gets. It never waits.
func (o *outlet) put(e wire.Event) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.ended:
		return errAnswered
	case o.why == stopEmit:
		return o.err
	case o.why == stopOutput:
		return errFlood
	case o.floods(e):
		o.fail(stopOutput, errFlood)
		return errFlood
	}
	o.push(e)
	o.ready.Signal()
	return nil
}

// floods counts an arrival against its bound. Late output of an earlier run
// counts as well: it is the same runner that sends it.
func (o *outlet) floods(e wire.Event) bool {
	bytes, most := int64(len(e.Data)), o.kept+outputSlack
	switch e.Kind {
	case wire.EventGap:
		bytes, most = eventCost, outputSlack
	case wire.EventDisplay:
		bytes, most = eventCost, wire.MaxBundle+outputSlack
	case wire.EventStdout, wire.EventStderr:
	}
	if e.Display != nil {
		for _, part := range e.Display.Data {
			bytes += int64(len(part.Data))
		}
	}
	o.arrived[e.Kind] += bytes
	return o.arrived[e.Kind] > most
}

// push appends a copy of e, to the last event where both are output of one kind.
func (o *outlet) push(e wire.Event) {
	if n := len(o.events); n > 0 && (e.Kind == wire.EventStdout || e.Kind == wire.EventStderr) {
		last := &o.events[n-1]
		if last.Kind == e.Kind && last.Late == e.Late && last.Run == e.Run && len(last.Data)+len(e.Data) <= wire.MaxPayload {
			last.Data = append(last.Data, e.Data...)
			return
		}
	}
	e.Data = append([]byte(nil), e.Data...)
	o.events = append(o.events, e)
}

// fail notes why the run has to end; the caller holds mu.
func (o *outlet) fail(why stop, err error) {
	if o.why == stopNone {
		o.why, o.err = why, err
		close(o.failed)
	}
}

// end says that nothing more arrives; what is there is still delivered.
func (o *outlet) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	o.ready.Broadcast()
}

// deliver passes events to emit on the calling goroutine until nothing more
// comes. After an error of emit, or the end of ctx, it only counts what it would
// have passed.
func (o *outlet) deliver(ctx context.Context, emit func(wire.Event) error) error {
	for {
		e, more := o.next()
		if !more {
			return o.failure()
		}
		if ctx.Err() != nil || o.failure() != nil {
			o.count(e, false)
			continue
		}
		if emit != nil {
			if err := emit(e); err != nil {
				o.mu.Lock()
				o.fail(stopEmit, fmt.Errorf("pass on the output: %w", err))
				o.mu.Unlock()
				o.count(e, false)
				continue
			}
		}
		o.count(e, true)
	}
}

func (o *outlet) next() (wire.Event, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.events) == 0 {
		if o.ended {
			return wire.Event{}, false
		}
		o.ready.Wait()
	}
	e := o.events[0]
	o.events[0] = wire.Event{}
	o.events = o.events[1:]
	return e, true
}

// count keeps the account of this run; late output is another one's.
func (o *outlet) count(e wire.Event, passed bool) {
	if e.Late || e.Run != o.run {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	account := &o.stdout
	if e.Kind == wire.EventStderr || e.Kind == wire.EventGap && e.Stream == wire.StreamStderr {
		account = &o.stderr
	}
	switch n := int64(len(e.Data)); {
	case e.Kind == wire.EventDisplay:
		o.displays++
	case e.Kind == wire.EventGap:
		account.Dropped += e.Dropped
	case passed:
		account.Kept += n
	default:
		account.Dropped += n
	}
	account.Total = account.Kept + account.Dropped
}

// failure is emit's error, if it failed.
func (o *outlet) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.why == stopEmit {
		return o.err
	}
	return nil
}

// cut is why the outlet wants the run to end, if it does.
func (o *outlet) cut() (why stop, detail string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.why == stopEmit {
		return o.why, o.err.Error()
	}
	return o.why, ""
}
