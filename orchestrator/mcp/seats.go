package mcp

import (
	"iter"
	"strconv"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// seats bound the MCP sessions of each credential, so that none takes those of others.
// The zero value is ready.
type seats struct {
	mu      sync.Mutex
	of      map[string]Peer // guarded by mu: of sessions, by their ids
	pending map[string]Peer // guarded by mu: on their way
	n       int             // guarded by mu: names those on their way
}

// take counts a session in that p is about to open, where there is room for it; it
// owes a call of settle with the id of what was opened, or none.
func (s *seats) take(open iter.Seq[*sdk.ServerSession], p Peer) (settle func(id string), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	alive := map[string]Peer{}
	for ss := range open {
		if owner, known := s.of[ss.ID()]; known {
			alive[ss.ID()] = owner
		}
	}
	if s.of = alive; s.pending == nil {
		s.pending = map[string]Peer{}
	}
	all, agents, own := 0, 0, 0
	for _, set := range []map[string]Peer{s.of, s.pending} {
		for _, other := range set {
			all++
			if !other.Operator {
				agents++
			}
			if other.ID == p.ID {
				own++
			}
		}
	}
	if all >= maxSessions || !p.Operator && (agents >= maxSessionsAgents || own >= maxSessionsEach) {
		return nil, false
	}
	s.n++
	place := strconv.Itoa(s.n)
	s.pending[place] = p
	return func(id string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.pending, place)
		if id != "" {
			s.of[id] = p
		}
	}, true
}
