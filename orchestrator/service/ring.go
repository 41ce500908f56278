package service

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"brig/orchestrator/api"
)

const (
	// runStream and feedStream are how much a stream holds for who comes late or is
	// slow, in bytes of its events.
	runStream  = 8 << 20
	feedStream = 1 << 20
	// eventCost is what an event is charged beside its data.
	eventCost = 256
	// atOnce is how many events a follower takes at a time.
	atOnce = 32
)

// held is one event of a stream.
type held struct {
	event api.Event
	// about is what a follower has to see to be told; nil: everybody is.
	about *session
	// data makes the event's data for one follower, who is not told where there is none;
	// nil: it is there.
	data func(*view) json.RawMessage
}

func (h held) bytes() int { return len(h.event.Data) + eventCost }

// ring is a bounded number of numbered events, the oldest of which go first.
// Whoever publishes never waits for who follows.
type ring struct {
	most int

	mu     sync.Mutex
	events []held        // guarded by mu, as everything below
	bytes  int           // of events
	last   uint64        // id of the latest event
	gone   uint64        // id of the latest event that is no longer held
	ended  bool          // nothing more comes
	wake   chan struct{} // closed when there is more; nil: nobody waits
}

// newRing starts its numbers after first.
func newRing(most int, first uint64) *ring { return &ring{most: most, last: first, gone: first} }

// publish appends an event, gives it its number and time, and drops the oldest
// where there are too many; the latest always stays.
func (s *ring) publish(h held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.last++
	h.event.ID, h.event.Time = s.last, time.Now().UTC()
	s.events = append(s.events, h)
	s.bytes += h.bytes()
	for s.bytes > s.most && len(s.events) > 1 {
		s.bytes -= s.events[0].bytes()
		s.gone = s.events[0].event.ID
		s.events[0] = held{}
		s.events = s.events[1:]
	}
	s.rouse()
}

// end says that nothing more comes. Followers get what is there.
func (s *ring) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.rouse()
}

// rouse wakes who waits; the caller holds mu.
func (s *ring) rouse() {
	if s.wake != nil {
		close(s.wake)
		s.wake = nil
	}
}

// size is how many bytes the stream holds.
func (s *ring) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// next are the events after the one with that id; from is that id, or another one
// where the events between them are gone. Without any, more is closed when there are
// some, or nil: none will come.
func (s *ring) next(after uint64) (events []held, from uint64, more <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if after > s.last || after < s.gone { // too old, of another brig's stream, or made up
		after = s.gone
	}
	// Numbers are consecutive, so that the place of an event is known.
	first := len(s.events) - int(s.last-after)
	if first < len(s.events) {
		end := min(first+atOnce, len(s.events))
		return append([]held(nil), s.events[first:end]...), after, nil
	}
	if s.ended {
		return nil, after, nil
	}
	if s.wake == nil {
		s.wake = make(chan struct{})
	}
	return nil, after, s.wake
}

// follow passes the events after the one with that id to emit until the stream has
// ended, ctx ends or emit fails. Where some are gone it is told so first.
func (s *ring) follow(ctx context.Context, v *view, after uint64, emit func(api.Event) error) error {
	for {
		events, from, more := s.next(after)
		if from != after {
			v.s.missed.Add(1)
			if err := emit(reset(after, from+1)); err != nil {
				return err
			}
			after = from
		}
		for _, h := range events {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			after = h.event.ID
			if h.about != nil && !v.c.sees(h.about.id, h.about.creator) {
				continue
			}
			e := h.event
			if h.data != nil {
				if e.Data = h.data(v); e.Data == nil {
					continue
				}
			}
			if err := emit(e); err != nil {
				return err
			}
		}
		if len(events) > 0 {
			continue
		}
		if more == nil {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// reset is the event that says what is missing.
func reset(after, next uint64) api.Event {
	return api.Event{Kind: api.EventReset, Time: time.Now().UTC(), Data: mustJSON(api.Reset{After: after, Next: next})}
}

// mustJSON is v as JSON. Every type that goes through it can be written.
func mustJSON(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic("BUG: it does not marshal: " + err.Error())
	}
	return text
}

// first is what to follow after for all that is held.
func (s *ring) first() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone
}
