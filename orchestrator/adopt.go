package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/store"
)

// adoptAtOnce is how many sessions are taken over at the same time; most of what
// each costs is waiting for the engine and for a run to end.
const adoptAtOnce = 8

// Adopt takes over the sessions that dead brigs of this owner have kept; it is
// called once, before sessions are opened. Of several brigs exactly one gets each.
//
// An instance that lives, and whose posture is what the resolution made now
// allows, goes on with its variables; what it was running is ended and Note says
// so. Where the instance is gone, or was ended here because it is less contained
// than allowed or other settings are in force, the session goes on with its files:
// it is in StateLost, its next run starts a fresh instance, and that result says why. The errors name what
// went wrong with single sessions; one that could not be taken over at all stays
// recorded for the next brig.
func (o *Orchestrator) Adopt(ctx context.Context) ([]*Session, []error) {
	if o.options.Store == nil {
		return nil, nil
	}
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return nil, []error{fmt.Errorf("take over sessions: %w", ErrClosed)}
	}
	o.adoptions.Add(1) // Close ends it, and waits until what is half taken over can be left again
	o.mu.Unlock()
	defer o.adoptions.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(o.life, func() { cancel(ErrClosed) })()

	// What is taken over is kept under this process's name from now on.
	if o.keeping() {
		if err := o.hoist(); err != nil {
			return nil, []error{err}
		}
	}
	rows, err := o.options.Store.Sessions(ctx)
	if err != nil {
		return nil, []error{err}
	}
	sessions, failures := make([]*Session, len(rows)), make([]error, len(rows))
	turns := make(chan struct{}, adoptAtOnce)
	var wg sync.WaitGroup
	for i, row := range rows {
		switch {
		case o.options.Owner.Alive(row.Process) || !row.Kept:
		case row.Err != nil:
			failures[i] = fmt.Errorf("take over session %s: read its record: %w", row.ID, row.Err)
		default:
			turns <- struct{}{}
			wg.Go(func() {
				defer func() { <-turns }()
				if sessions[i], failures[i] = o.takeOver(ctx, row); failures[i] != nil {
					failures[i] = fmt.Errorf("take over session %s: %w", row.Name, failures[i])
				}
			})
		}
	}
	wg.Wait()
	var taken []*Session
	var errs []error
	for i := range rows {
		if sessions[i] != nil {
			taken = append(taken, sessions[i])
		}
		if failures[i] != nil {
			errs = append(errs, failures[i])
		}
	}
	return taken, errs
}

// takeOver makes a recorded session this process's. Both are nil when another brig was first.
func (o *Orchestrator) takeOver(ctx context.Context, row store.Session) (*Session, error) {
	s := o.newSession(row.ID, row.Lifetime)
	if err := o.admit(s); err != nil {
		return nil, err
	}
	err := o.options.Store.Claim(ctx, row.ID, row.Process)
	claimed := err == nil
	usable := false
	if claimed {
		usable, err = s.takeOver(ctx, row)
	} else if errors.Is(err, store.ErrClaimed) {
		err = nil
	}
	s.work.Done() // of admit
	if usable {
		return s, err
	}
	// Nothing of it is this session's: closing it removes neither files nor record.
	s.mu.Lock()
	s.record, s.home.dir = record{}, ""
	s.mu.Unlock()
	closing, cancel := bounded(ctx, sessionBound)
	defer cancel()
	return nil, errors.Join(err, s.Close(closing))
}

// takeOver goes on with what is recorded. usable is false when there is no
// session to go on with.
func (s *Session) takeOver(ctx context.Context, row store.Session) (usable bool, err error) {
	o := s.o
	s.spec = launch{
		want: row.Want, wish: wish{base: row.Base, most: row.Limits}, workspace: row.Workspace,
		claim: sandbox.Claim{Session: row.Name, Timezone: row.Timezone, Locale: row.Locale},
	}
	s.creator, s.created, s.runs = row.Creator, row.Created, row.Runs
	s.home = home{workspace: row.Workspace}
	if row.Home != "" && filepath.Dir(row.Home) == filepath.Join(o.options.Paths.Data, homesDir) {
		s.home.dir = row.Home // what goes with the session lies there and nowhere else
	}
	if err := s.openFiles(o.base(row.Backend, s.spec.wish).Limits); err != nil {
		if s.home.dir == "" || !errors.Is(err, fs.ErrNotExist) {
			return false, fmt.Errorf("open its files, which may be elsewhere now: %w", err)
		}
		return false, errors.Join(fmt.Errorf("its files are gone, and so it is: %w", err), o.options.Store.Remove(ctx, row.ID))
	}
	s.mu.Lock()
	if s.closing { // its lifetime was over
		s.mu.Unlock()
		return false, fmt.Errorf("take it up: %w", ErrClosed)
	}
	s.record = record{row.ID, row.Kept}
	s.recall(row)
	s.move(eventStart)
	s.mu.Unlock()

	err = s.regain(ctx, row)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expiry.found(row.Used)
	if row.Lifetime > 0 {
		// Only wall clocks go from one brig to the next; from here on it is the monotonic one.
		s.expiry.opened = time.Now().Add(-max(time.Since(row.Created), 0))
		s.expiry.timer.Reset(s.expiry.next(time.Now()))
	}
	return true, err
}

// recall is what is known of the latest instance as long as there is no other
// one; the caller holds mu.
func (s *Session) recall(row store.Session) {
	s.bound.stamp = Stamp{Backend: row.Backend, Configured: s.o.now().backend, Guard: guardNone, Session: row.Name}
	s.bound.stamp.Containment = s.bound.stamp.containment()
	if i := row.Instance; i != nil {
		var r Resolution
		if json.Unmarshal(i.Resolution, &r) == nil { // it only informs: the next instance is judged anew
			s.bound.resolution, s.bound.posture = r, i.Posture
			s.bound.stamp = stamp(r, i.Posture, row.Name)
		}
	}
}

// regain takes up the session's instance, or leaves the session without one.
func (s *Session) regain(ctx context.Context, row store.Session) error {
	cut := ""
	if row.State == store.Running {
		cut = fmt.Sprintf("run %s was under way when the brig before ended, and its end was not seen (%s)", row.Run, sandbox.BackendLost)
	}
	why := row.Note // of a session that had lost its instance before
	var err error
	var l *lostInstance
	if i := row.Instance; i != nil {
		l = &lostInstance{
			kind: i.Backend, until: time.Now().Add(i.Base.Lease + leaseSlack),
			adoption: sandbox.Adoption{Handle: i.Handle, ID: i.ID, Base: i.Base, Workspace: i.Workspace},
		}
		if err = s.resume(ctx, l); err == nil {
			s.remember(ctx, cut)
			return nil
		}
		why = "brig was started anew: " + err.Error()
	}
	none := make(chan struct{})
	close(none)
	s.mu.Lock()
	s.retired, s.loss, s.note = none, join(why, cut), cut
	if !errors.Is(err, sandbox.ErrGone) {
		s.lost = l // to be tried again with the next run
	}
	s.move(eventLost)
	s.watchExpiry()
	lost := s.lost
	s.mu.Unlock()
	if lost == nil && row.Instance != nil {
		s.recordLost()
	}
	if errors.Is(err, sandbox.ErrGone) && !errors.Is(err, errPutDown) {
		return nil // it ended while no brig was there: that is no failure of taking over
	}
	return err
}

// remember keeps a sentence about the session's past, here and in its record.
func (s *Session) remember(ctx context.Context, note string) {
	if note == "" {
		return
	}
	s.mu.Lock()
	s.note = note
	id := s.record.id
	s.mu.Unlock()
	ctx, cancel := bounded(ctx, markBound)
	defer cancel()
	s.leave(s.o.options.Store.Note(ctx, id, note))
}
