package service

import (
	"context"
	"sync"

	"brig/orchestrator"
	"brig/orchestrator/api"
	"brig/orchestrator/audit"
)

// session is one entry of the registry.
type session struct {
	id, name, creator string
	approval          api.Approval // of who opened it
	live              *orchestrator.Session
	oneShot           bool // it is for one run

	datasets sync.Mutex // one change of them at a time
	token    sync.Mutex // one is made at a time, so that memory and record agree

	mu      sync.Mutex // held while it is told of
	closed  bool       // guarded by mu: closed was told, which is the last
	pending int        // guarded by Service.mu: runs that have not ended
	over    sync.Once  // it was taken out of the registry, and that told
}

// opening is a session of a name that is being opened; whoever asks for the same
// name waits for it.
type opening struct {
	creator string
	done    chan struct{} // closed when the two below are set
	session *session
	err     error
}

// find is the session of that id or name, if the caller may know of it. While
// sessions of an earlier brig are being taken over it waits for one that is not there yet.
func (v *view) find(ctx context.Context, name string) (*session, error) {
	if s := v.s.look(name); s != nil {
		return v.shown(s)
	}
	select {
	case <-v.s.settled:
	case <-ctx.Done():
		return nil, v.s.problem(context.Cause(ctx))
	case <-v.s.life.Done():
		return nil, shutting()
	}
	if s := v.s.look(name); s != nil {
		return v.shown(s)
	}
	return nil, notFound("session")
}

func (v *view) shown(s *session) (*session, error) {
	if !v.c.sees(s.id, s.creator) {
		return nil, notFound("session")
	}
	return s, nil
}

func (s *Service) look(name string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.sessions[name]; found != nil {
		return found
	}
	return s.names[name]
}

// register takes a session in and watches for its end.
func (s *Service) register(x *session) {
	s.mu.Lock()
	s.sessions[x.id] = x
	if !x.oneShot {
		s.names[x.name] = x
	}
	s.work.Add(1)
	s.mu.Unlock()
	go func() {
		defer s.work.Done()
		<-x.live.Gone()
		s.forget(x)
	}()
	s.dirty.add(x.live)
}

// forget takes a session that is gone out of the registry and tells of it, once;
// whoever comes second waits for the first.
func (s *Service) forget(x *session) { x.over.Do(func() { s.strike(x) }) }

func (s *Service) strike(x *session) {
	s.mu.Lock()
	delete(s.sessions, x.id)
	if s.names[x.name] == x {
		delete(s.names, x.name)
	}
	i := x.live.Info()
	if i.Reason != orchestrator.ReasonKept {
		delete(s.tokens, x.id)
		s.revoke(x.id)
	}
	s.mu.Unlock()
	s.tally.closed(string(i.Reason))
	s.tell(x, true)
	if i.Reason == orchestrator.ReasonKept {
		return
	}
	s.note(audit.KindSession, "brig", audit.SessionData{Event: "closed", Session: x.id, Name: x.name, Creator: x.creator, Detail: string(i.Reason)})
	s.options.Log.Info().Str("session", x.id).Str("reason", string(i.Reason)).Msg("session closed")
}

// dirty are sessions that have changed. Adding one takes no lock of the session's
// and never waits: it is done where the orchestrator holds that.
type dirty struct {
	mu   sync.Mutex
	set  map[*orchestrator.Session]struct{}
	more chan struct{} // holds a value where there are some
}

func (d *dirty) add(s *orchestrator.Session) {
	d.mu.Lock()
	if d.set == nil {
		d.set = map[*orchestrator.Session]struct{}{}
	}
	d.set[s] = struct{}{}
	d.mu.Unlock()
	select {
	case d.more <- struct{}{}:
	default:
	}
}

func (d *dirty) take() map[*orchestrator.Session]struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	set := d.set
	d.set = nil
	return set
}

// tellOfSessions publishes each session that has changed. Several changes between
// two looks are one event: what counts is how it stands.
func (s *Service) tellOfSessions() {
	for {
		select {
		case <-s.dirty.more:
		case <-s.life.Done():
			return
		}
		for live := range s.dirty.take() {
			s.mu.Lock()
			x := s.sessions[live.ID()]
			s.mu.Unlock()
			if x != nil && x.live == live {
				s.tell(x, false)
			}
		}
	}
}

// tell publishes how a session stands; last: it is closed.
func (s *Service) tell(x *session, last bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return
	}
	x.closed = last
	s.feed.publish(held{about: x, event: api.Event{Kind: api.EventSession, Data: mustJSON(s.describe(x))}})
}
