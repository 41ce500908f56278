package wire

import "sync"

const (
	defaultRing = 8 << 20
	eventCost   = 128 // what an event is charged beside its bytes
	pooled      = 16  // buffers kept for the next events
)

// ring is the bounded buffer between the reader, which never waits, and emit,
// which may. Beyond its limit output is dropped and counted; gaps and displays
// are bounded elsewhere and never dropped.
type ring struct {
	limit int

	mu     sync.Mutex
	ready  sync.Cond
	events []Event
	bytes  int
	closed bool
	free   [][]byte

	dropping bool
	lost     [2]int64 // dropped here, of stdout and stderr, and not yet told
	gaps     [2]int64 // dropped by the runner while dropping, and not yet told
}

func newRing(limit int) *ring {
	if limit <= 0 {
		limit = defaultRing
	}
	r := &ring{limit: limit}
	r.ready.L = &r.mu
	return r
}

func kindOf(stream uint32) EventKind {
	if stream == StreamStdout {
		return EventStdout
	}
	return EventStderr
}

// output appends a copy of p, or counts it as dropped.
func (r *ring) output(run RunID, stream uint32, p []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(p) == 0 || r.closed {
		return
	}
	if r.dropping && r.bytes <= r.limit/2 {
		r.tellDrops(run)
	}
	if r.dropping || r.bytes+len(p) > r.limit {
		r.dropping = true
		r.lost[stream-1] += int64(len(p))
		return
	}
	if n := len(r.events); n > 0 {
		last := &r.events[n-1]
		if last.Kind == kindOf(stream) && !last.Late && len(last.Data)+len(p) <= MaxPayload {
			before := cap(last.Data)
			last.Data = append(last.Data, p...)
			r.bytes += cap(last.Data) - before
			r.ready.Signal()
			return
		}
	}
	r.push(Event{Kind: kindOf(stream), Run: run, Data: append(r.buffer(len(p)), p...)})
}

// gap appends what the runner dropped at this point.
func (r *ring) gap(run RunID, stream uint32, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch last := len(r.events) - 1; {
	case r.dropping:
		r.gaps[stream-1] = sum(r.gaps[stream-1], n)
	case last >= 0 && r.events[last].Kind == EventGap && !r.events[last].Slow && !r.events[last].Late && r.events[last].Stream == stream:
		r.events[last].Dropped = sum(r.events[last].Dropped, n)
	case r.bytes+eventCost > r.limit:
		r.dropping = true
		r.gaps[stream-1] = n
	default:
		r.push(Event{Kind: EventGap, Run: run, Stream: stream, Dropped: n})
	}
}

// sum adds two counts that a hostile runner may have made large.
func sum(a, b int64) int64 { return min(a, 1<<62-1) + min(b, 1<<62-1) }

// add appends an event that is never dropped.
func (r *ring) add(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.push(e)
}

func (r *ring) push(e Event) {
	r.events = append(r.events, e)
	r.bytes += cost(e)
	r.ready.Signal()
}

func cost(e Event) int {
	n := eventCost + cap(e.Data)
	if e.Display != nil {
		for _, p := range e.Display.Data {
			n += cap(p.Data) + len(p.MIME)
		}
	}
	return n
}

// tellDrops puts the gaps where the drops were, and ends dropping.
func (r *ring) tellDrops(run RunID) {
	r.dropping = false
	for i, stream := range []uint32{StreamStdout, StreamStderr} {
		if r.gaps[i] > 0 {
			r.push(Event{Kind: EventGap, Run: run, Stream: stream, Dropped: r.gaps[i]})
		}
		if r.lost[i] > 0 {
			r.push(Event{Kind: EventGap, Run: run, Stream: stream, Dropped: r.lost[i], Slow: true})
		}
		r.gaps[i], r.lost[i] = 0, 0
	}
}

// close says that nothing more comes; what is there is still delivered.
func (r *ring) close(run RunID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.closed = true
	r.tellDrops(run)
	r.ready.Broadcast()
}

// next waits for the next event; false: there is none any more.
func (r *ring) next() (Event, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.events) == 0 {
		if r.closed {
			return Event{}, false
		}
		r.ready.Wait()
	}
	e := r.events[0]
	r.events[0] = Event{}
	r.events = r.events[1:]
	r.bytes -= cost(e)
	return e, true
}

// buffer returns an empty buffer for n bytes.
func (r *ring) buffer(n int) []byte {
	if last := len(r.free) - 1; last >= 0 && n > MaxPayload/2 {
		b := r.free[last]
		r.free = r.free[:last]
		return b
	}
	return make([]byte, 0, n)
}

// recycle takes back the buffer of an event that was delivered.
func (r *ring) recycle(e Event) {
	if cap(e.Data) < MaxPayload {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.free) < pooled {
		r.free = append(r.free, e.Data[:0])
	}
}
