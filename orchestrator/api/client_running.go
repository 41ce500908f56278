package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
)

// running is one run whose events this client reads from the answer to its request.
type running struct {
	client *Client
	hangUp context.CancelCauseFunc

	mu    sync.Mutex
	id    string // of the run, as soon as it is known
	given bool   // it was given up
}

// known notes the run's id. One that was given up before is cancelled now.
func (r *running) known(id string) {
	r.mu.Lock()
	r.id = id
	given := r.given
	r.mu.Unlock()
	if given {
		r.cancel(id, nil)
	}
}

// giveUp cancels the run, so that its end is still told, and hangs up if that takes
// too long. A run without an id has not begun: hanging up ends it.
func (r *running) giveUp(cause error) {
	r.mu.Lock()
	id, given := r.id, r.given
	r.given = true
	r.mu.Unlock()
	if given {
		return
	}
	if id == "" {
		r.hangUp(cause)
		return
	}
	r.cancel(id, cause)
}

func (r *running) cancel(id string, cause error) {
	ctx, done := context.WithTimeout(context.Background(), cancelGrace)
	context.AfterFunc(ctx, func() { r.hangUp(cause) })
	go func() {
		_, err := r.client.CancelRun(ctx, id)
		if err != nil && !errors.Is(err, &Problem{Code: CodeNotRunning}) {
			done() // it cannot be asked: hanging up says the same
		}
		<-ctx.Done()
		done()
	}()
}

// follow reads the events of the run and passes them on. The stream is read whatever
// emit does: a reader that is slow must not make brig take it for gone.
func (r *running) follow(ctx context.Context, body io.Reader, emit func(Event) error) (Run, error) {
	q := newBacklog()
	go r.read(ctx, body, q)
	var run Run
	var failed error
	for {
		e, err := q.next()
		if err != nil {
			return run, errors.Join(failed, err)
		}
		if e.Kind == EventStarted || e.Kind == EventEnd {
			if run, err = decodeRun(e); err != nil {
				return run, errors.Join(failed, err)
			}
		}
		if emit != nil && failed == nil {
			if failed = emit(e); failed != nil {
				q.discard()
				r.giveUp(failed)
			}
		}
		if e.Kind == EventEnd {
			return run, failed
		}
	}
}

func (r *running) read(ctx context.Context, body io.Reader, q *backlog) {
	s := newEvents(body)
	for {
		e, err := s.next()
		if err != nil {
			q.end(broke(ctx, err))
			return
		}
		if e.Kind == EventStarted {
			if run, err := decodeRun(e); err == nil {
				r.known(run.ID)
			}
		}
		q.put(e)
		if e.Kind == EventEnd {
			q.end(nil)
			return
		}
	}
}

// maxBacklog is how much output of a run waits for a slow emit, in bytes of events.
const maxBacklog = 8 << 20

// backlog are events that wait for emit. It is bounded: output that finds no room is
// dropped and counted, as brig itself does, and a gap says so.
type backlog struct {
	mu      sync.Mutex
	more    *sync.Cond
	events  []Event
	bytes   int
	dropped map[EventKind]int64
	drops   bool // nobody wants any output any more
	ended   bool
	err     error
}

func newBacklog() *backlog {
	q := &backlog{dropped: map[EventKind]int64{}}
	q.more = sync.NewCond(&q.mu)
	return q
}

func (q *backlog) put(e Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	output := e.Kind == EventStdout || e.Kind == EventStderr
	if output && (q.drops || q.bytes+len(e.Data) > maxBacklog) {
		q.dropped[e.Kind] += chunkBytes(e)
		return
	}
	if !q.drops {
		q.gaps(e)
	}
	q.add(e)
}

func (q *backlog) add(e Event) {
	q.events = append(q.events, e)
	q.bytes += len(e.Data)
	q.more.Signal()
}

// gaps puts what was dropped before e where it would have been.
func (q *backlog) gaps(e Event) {
	for _, kind := range []EventKind{EventStdout, EventStderr} {
		if n := q.dropped[kind]; n > 0 {
			delete(q.dropped, kind)
			data, _ := json.Marshal(Gap{Stream: string(kind), DroppedBytes: n, Slow: true})
			q.add(Event{ID: e.ID, Kind: EventGap, Time: e.Time, Data: data})
		}
	}
}

func (q *backlog) discard() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.drops = true
}

func (q *backlog) end(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended, q.err = true, err
	q.more.Signal()
}

// next waits for the next event. After the last one it returns the error that ended
// the stream, or io.EOF.
func (q *backlog) next() (Event, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.events) == 0 && !q.ended {
		q.more.Wait()
	}
	if len(q.events) == 0 {
		if q.err == nil {
			return Event{}, io.EOF
		}
		return Event{}, q.err
	}
	e := q.events[0]
	q.events[0] = Event{}
	q.events = q.events[1:]
	q.bytes -= len(e.Data)
	return e, nil
}

// chunkBytes is how much output an event holds.
func chunkBytes(e Event) int64 {
	var c Chunk
	if json.Unmarshal(e.Data, &c) != nil {
		return 0
	}
	return int64(len(c.Bytes()))
}
