package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/workspace"
)

// SessionOptions of Open. The zero value is an unnamed session on the configured
// backend with a fresh workspace that goes with it.
type SessionOptions struct {
	Name      string        // empty: named after its first instance
	Backend   sandbox.Kind  // empty: the configured one, with its step-down; otherwise this one or none
	Workspace string        // an existing directory; empty: a fresh one in the data directory
	Keep      bool          // a fresh workspace stays after Close
	Base      *sandbox.Base // nil: as configured for the backend that is resolved
	Timezone  string        // IANA name, empty means UTC
	Locale    string        // such as de_DE.UTF-8, empty means C.UTF-8
	// Lifetime closes the session so long after it was opened, whatever it is
	// doing; zero: it ends when it is closed or nobody has used it for limits.idle.
	Lifetime time.Duration
}

// Open starts a session: it resolves a backend, prepares an instance and binds
// it. Nothing runs on less containment than the resolution allows: an instance
// whose posture turns out worse is closed and the error is a *RefusedError. ctx
// bounds the opening, not the session; whoever gets a session closes it. With
// Options.Store the session is on record when Open returns; ErrNameTaken.
func (o *Orchestrator) Open(ctx context.Context, so SessionOptions) (*Session, error) {
	if so.Lifetime < 0 {
		return nil, fmt.Errorf("open a session: %w", ErrLifetime)
	}
	s := o.newSession(so.Lifetime)
	if err := o.admit(s); err != nil {
		return nil, err
	}
	if err := s.open(ctx, so); err != nil {
		// The caller never gets the session, so its end is waited for here.
		ctx, cancel := bounded(ctx, sessionBound)
		defer cancel()
		return nil, errors.Join(err, s.Close(ctx))
	}
	o.sweepOnce()
	return s, nil
}

func (o *Orchestrator) newSession(lifetime time.Duration) *Session {
	s := &Session{o: o, queue: newQueue(), gone: make(chan struct{}), expiry: expiry{lifetime: lifetime}}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

func (s *Session) open(ctx context.Context, so SessionOptions) error {
	defer s.work.Done() // of admit
	s.mu.Lock()
	if s.closing {
		defer s.mu.Unlock()
		return fmt.Errorf("open a session: %w", ErrClosed)
	}
	s.move(eventStart)
	s.mu.Unlock()
	err := s.start(ctx, so)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.move(eventFail)
	}
	return err
}

// start makes what the session consists of. Close undoes what was made, so it
// is stored as soon as it exists.
func (s *Session) start(ctx context.Context, so SessionOptions) error {
	id := string(s.o.newInstanceID())
	if so.Name == "" {
		so.Name = id
	}
	s.spec = launch{
		want:  so.Backend,
		claim: sandbox.Claim{Session: so.Name, Timezone: so.Timezone, Locale: so.Locale},
	}
	if so.Base != nil {
		base := *so.Base // the caller may go on using its own
		s.spec.base = &base
	}

	// Before anything is made on disk: a refusal leaves nothing behind.
	r, err := s.o.resolve(ctx, question{want: so.Backend, base: s.spec.base, warm: s.o.options.Warm && so.Workspace == ""})
	if err != nil {
		return err
	}
	if r.Err != nil {
		return r.Err
	}
	limits := s.o.base(r.Resolved, s.spec.base).Limits
	if so.Workspace == "" && s.o.options.Warm {
		if b, h, warm := s.o.pool.handOut(ctx, r, s.spec); warm {
			return s.adopt(ctx, b, h, limits, so, id)
		}
	}
	if s.home, err = s.makeHome(so, id); err != nil {
		return err
	}
	if err := s.openFiles(limits); err != nil {
		return err
	}
	if err := s.enrol(ctx, so, id, r.Resolved); err != nil {
		return err
	}
	return s.launch(ctx)
}

// openFiles opens the files of the session's home.
func (s *Session) openFiles(limits sandbox.Limits) (err error) {
	s.spec.workspace = s.home.workspace
	s.files, err = workspace.OpenLimited(s.home.workspace, workspace.Limits{Bytes: limits.Workspace, File: limits.FileSize})
	return err
}

// adopt makes a prepared instance and its directory the session's.
func (s *Session) adopt(ctx context.Context, b bound, h home, limits sandbox.Limits, so SessionOptions, id string) error {
	s.home = h
	err := error(nil)
	if so.Keep {
		s.home, err = h.keep()
	}
	if err == nil {
		err = s.openFiles(limits)
	}
	if err == nil {
		err = s.enrol(ctx, so, id, b.posture.Backend)
	}
	if err != nil {
		return errors.Join(err, closeInstance(context.Background(), b.instance))
	}
	return s.receive(b)
}

func (s *Session) makeHome(so SessionOptions, id string) (home, error) {
	if so.Workspace != "" {
		return takeHome(so.Workspace)
	}
	return makeHome(s.o.options.Paths.Data, id, so.Keep)
}

// admit counts a session in, or says why not.
func (o *Orchestrator) admit(s *Session) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return fmt.Errorf("open a session: %w", ErrClosed)
	}
	if n := o.now().sessions; len(o.sessions) >= n {
		return fmt.Errorf("open a session, limits.sessions is %d: %w", n, ErrTooMany)
	}
	o.sessions[s] = struct{}{}
	s.work.Add(1) // the opening: Close waits for it
	return nil
}

func (o *Orchestrator) dismiss(s *Session) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.sessions, s)
}
