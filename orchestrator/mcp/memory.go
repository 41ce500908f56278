package mcp

import "sync"

// memoryMost bounds what is remembered of sessions.
const memoryMost = 4096

// memory is what calls have to know of sessions from earlier calls.
type memory struct {
	mu        sync.Mutex
	contained map[string]bool   // sessions that were seen to be; guarded by mu
	notes     map[string]string // what the next run has to tell; guarded by mu
}

func newMemory() *memory { return &memory{contained: map[string]bool{}, notes: map[string]string{}} }

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

// remark keeps a note for the next run in a session.
func (m *memory) remark(p Peer, session, note string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.notes) < memoryMost {
		m.notes[of(p, session)] = note
	}
}

// remarked takes the note for a session.
func (m *memory) remarked(p Peer, session string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := of(p, session)
	defer delete(m.notes, key)
	return m.notes[key]
}
