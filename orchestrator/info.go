package orchestrator

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// Info is a session at one moment.
type Info struct {
	ID, Name, Creator string
	State             State
	Created, Used     time.Time
	Expires           time.Time // zero: it has no lifetime
	IdleEnds          time.Time // zero: it is in use
	Run               wire.RunID
	Queued            int // calls that wait for the interpreter
	Runs              int // that were begun, in earlier brigs too
	Limits            sandbox.Limits
	Resolution        Resolution      // of the latest instance, as the two below
	Posture           sandbox.Posture // without layers: it is a kept session's whose instance was not taken up
	Stamp             Stamp
	Note              string // see Session.Note
	Loss              string // why the latest instance is gone, in state lost
	Reason            Reason // why it was closed
}

// ID names the session among all of this owner, and in the store.
func (s *Session) ID() string { return s.id }

// Name is the one that was asked for, or the ID.
func (s *Session) Name() string { return s.spec.claim.Session }

// Info tells how the session stands. It asks nobody.
func (s *Session) Info() Info {
	queued := s.queue.length()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notice()
	i := Info{
		ID: s.id, Name: s.spec.claim.Session, Creator: s.creator, State: s.state, Created: s.created, Used: s.expiry.used,
		Run: s.current, Queued: queued, Runs: s.runs, Limits: s.bound.limits, Resolution: s.bound.resolution, Posture: s.bound.posture,
		Stamp: s.bound.stamp, Note: s.note, Reason: s.expiry.reason,
	}
	if i.Limits == (sandbox.Limits{}) {
		i.Limits = s.o.base(i.Stamp.Backend, s.spec.wish).Limits
	}
	if s.state == StateLost || s.state == StateReplacing {
		i.Loss = s.loss
	}
	e := s.expiry
	if e.timer == nil || s.closing {
		return i
	}
	if e.lifetime > 0 {
		i.Expires = e.opened.Add(e.lifetime)
	}
	if e.users == 0 {
		i.IdleEnds = e.idleEnds()
	}
	return i
}

// Renew counts as a use of the session. A lifetime above zero ends it so long from
// now; zero leaves the end of its lifetime as it was. With Options.Store that is on
// record when Renew returns.
func (s *Session) Renew(ctx context.Context, lifetime time.Duration) error {
	if lifetime < 0 {
		return fmt.Errorf("renew the session: %w", ErrLifetime)
	}
	s.renewing.Lock() // so that memory and record agree on which one was the last
	defer s.renewing.Unlock()
	s.mu.Lock()
	now := time.Now()
	created, id, closing := s.created, s.record.id, s.closing
	s.mu.Unlock()
	if closing {
		return fmt.Errorf("renew the session: %w", s.closedError(ErrClosed))
	}
	if id != "" && lifetime > 0 {
		ctx, cancel := context.WithTimeoutCause(ctx, recordBound, errTooSlow)
		defer cancel()
		if err := s.o.options.Store.Extend(ctx, id, now.Sub(created)+lifetime, now); err != nil {
			return fmt.Errorf("renew the session: %w", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return fmt.Errorf("renew the session: %w", ErrClosed)
	}
	s.expiry.used = now
	if lifetime > 0 {
		s.expiry.lifetime = now.Sub(s.expiry.opened) + lifetime
	}
	if s.expiry.timer != nil {
		s.expiry.timer.Reset(s.expiry.next(now))
	}
	s.changed()
	return nil
}

// Usage is what the session's instance takes now. It waits for no run and is no
// use of the session. ErrNoInterpreter: it has none.
func (s *Session) Usage(ctx context.Context) (wire.UsageBody, error) {
	s.mu.Lock()
	s.notice()
	state, instance := s.state, s.bound.instance
	s.mu.Unlock()
	var body wire.UsageBody
	switch state {
	case StateIdle, StateRunning, StateInterrupting:
	case StateNew, StateStarting, StateLost, StateReplacing:
		return body, fmt.Errorf("measure the session: %w", ErrNoInterpreter)
	case StateClosing, StateClosed:
		return body, fmt.Errorf("measure the session: %w", s.closedError(ErrClosed))
	}
	reply, err := instance.Call(ctx, wire.Control{Op: wire.OpUsage}, nil, nil)
	if err == nil {
		err = json.Unmarshal(reply.Body, &body)
	}
	if err != nil {
		return wire.UsageBody{}, fmt.Errorf("measure the session: %w", err)
	}
	return body, nil
}

// Gone is closed when nothing of the session is left, or everything was tried.
func (s *Session) Gone() <-chan struct{} { return s.gone }

// Stored is how many bytes and files the session's workspace holds. It is no use of
// the session.
func (s *Session) Stored() (bytes int64, files int, err error) {
	s.mu.Lock()
	w := s.files
	s.mu.Unlock()
	if w == nil {
		return 0, 0, fmt.Errorf("measure the workspace: %w", ErrClosed)
	}
	return w.Usage()
}
