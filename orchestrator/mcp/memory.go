package mcp

import (
	"sync"
	"time"
)

// memoryMost bounds what is remembered of sessions.
const memoryMost = 4096

// memory is what calls have to know of sessions from earlier calls.
type memory struct {
	mu        sync.Mutex
	contained map[string]bool  // sessions that were seen to be; guarded by mu
	notes     map[string]*note // what the next run has to tell; guarded by mu
}

// note is what is to be said of a session; done is closed when it is known.
type note struct {
	done chan struct{}
	text string
}

func newMemory() *memory { return &memory{contained: map[string]bool{}, notes: map[string]*note{}} }

// of is a session as one caller names it.
func of(p Peer, session string) string { return p.ID + "\x00" + session }

// judged tells whether the session was seen to be contained. That it still is follows
// from the look at the containment before each run: an interpreter that is replaced
// is replaced by what can be had then.
func (m *memory) judged(p Peer, session string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.contained[of(p, session)]
}

func (m *memory) judge(p Peer, session string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.contained) >= memoryMost {
		clear(m.contained)
	}
	m.contained[of(p, session)] = true
}

// remark announces a note for the next run in a session, which waits for settle.
func (m *memory) remark(p Peer, session string) (settle func(text string)) {
	n := &note{done: make(chan struct{})}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.notes) < memoryMost {
		m.notes[of(p, session)] = n
	}
	return func(text string) {
		n.text = text
		close(n.done)
	}
}

// remarked takes the note for a session.
func (m *memory) remarked(p Peer, session string) string {
	key := of(p, session)
	m.mu.Lock()
	n := m.notes[key]
	delete(m.notes, key)
	m.mu.Unlock()
	if n == nil {
		return ""
	}
	select {
	case <-n.done:
		return n.text
	case <-time.After(settle): // the run before this one has ended, so that it is about to be known
		return ""
	}
}
