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
	ID        string        // of NewID; empty: Open makes one
	Name      string        // empty: its ID
	Backend   sandbox.Kind  // empty: the configured one, with its step-down; otherwise this one or none
	Workspace string        // an existing directory; empty: a fresh one in the data directory
	Keep      bool          // a fresh workspace stays after Close
	Base      *sandbox.Base // nil: as configured for the backend that is resolved
	// Limits are what the session asks to have less of than configured; more, and zero,
	// change nothing. They go with the session into a later brig.
	Limits sandbox.Limits
	// Passing: it ends with this brig, however that ends and whatever the settings say.
	Passing  bool
	Creator  string // the credential that asked for it; for whoever lists sessions
	Timezone string // IANA name, empty means UTC
	Locale   string // such as de_DE.UTF-8, empty means C.UTF-8
	// Lifetime closes the session so long after it was opened, whatever it is
	// doing; zero: it ends when it is closed or nobody has used it for limits.idle.
	Lifetime time.Duration
	// Trial is for the self-test: it finds out what holds, so neither what
	// host.sandbox=require asks for nor the consent for code that nothing contains is
	// a condition of it. What is bound is held against the resolution as always, and
	// the session never outlives this brig.
	Trial bool
	// Prepared starts the instance before the session is bound to it and hands it out
	// as the pool does, whether or not Options.Warm is set; what the pool keeps ready for
	// others stays theirs. Workspace has to be empty.
	Prepared bool
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
	if so.Prepared && so.Workspace != "" {
		return nil, fmt.Errorf("open a session: %w", errPreparedElsewhere)
	}
	if so.ID == "" {
		so.ID = o.NewID()
	}
	s := o.newSession(so.ID, so.Lifetime)
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

// NewID is the ID of a session that does not exist yet, used once in the world.
func (o *Orchestrator) NewID() string { return string(o.newInstanceID()) }

func (o *Orchestrator) newSession(id string, lifetime time.Duration) *Session {
	s := &Session{o: o, id: id, queue: newQueue(), gone: make(chan struct{}), expiry: expiry{lifetime: lifetime}}
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
	id := s.id
	if so.Name == "" {
		so.Name = id
	}
	s.creator, s.created, s.passing = so.Creator, time.Now(), so.Passing
	s.spec = launch{
		want: so.Backend, trial: so.Trial, wish: wish{most: so.Limits},
		claim: sandbox.Claim{Session: so.Name, Timezone: so.Timezone, Locale: so.Locale},
	}
	if so.Base != nil {
		base := *so.Base // the caller may go on using its own
		s.spec.base = &base
	}

	// Before anything is made on disk: a refusal leaves nothing behind.
	warm := s.o.options.Warm && so.Workspace == "" && !so.Prepared
	r, err := s.o.resolve(ctx, question{want: so.Backend, wish: s.spec.wish, warm: warm, trial: so.Trial})
	if err != nil {
		return err
	}
	if r.Err != nil {
		return r.Err
	}
	limits := s.o.base(r.Resolved, s.spec.wish).Limits
	if so.Prepared {
		b, h, err := s.prepare(ctx, r)
		if err != nil {
			return err
		}
		return s.adopt(ctx, b, h, limits, so, id)
	}
	if warm {
		if b, h, ready := s.o.pool.handOut(ctx, r, s.spec); ready {
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

// prepare has the pool prepare an instance for this session alone and hand it
// out. Close ends it as well.
func (s *Session) prepare(ctx context.Context, r Resolution) (bound, home, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.life, func() { cancel(ErrClosed) })()
	b, h, err := s.o.pool.made(ctx, r, s.spec)
	if err != nil {
		return bound{}, home{}, fmt.Errorf("start the %s sandbox ahead: %w", r.Resolved, err)
	}
	return b, h, nil
}

// errPreparedElsewhere is about a prepared instance for a directory of the caller's.
var errPreparedElsewhere = errors.New("a prepared instance comes with its own workspace")

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
	return makeHome(s.o.options.Paths.Data, homeName(s.o.options.Owner.ID(), id), so.Keep)
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
