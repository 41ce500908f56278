package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/store"
	"brig/orchestrator/wire"
)

const (
	// keepLease is how long a kept instance waits for a brig that takes it over.
	// Starting brig anew, or putting another version in its place, takes seconds;
	// for longer than this no code may run that nobody watches: without a brig
	// there is no time limit and nobody to ask.
	keepLease = 60 * time.Second
	// leaseSlack is how much later than its lease an instance is gone for sure.
	leaseSlack = 10 * time.Second
	// recordBound is how long a change of the store may take; far more than it does.
	recordBound = 10 * time.Second
	// markBound is the same where a run waits for it.
	markBound = time.Second
	// parkGrace is how long a run may clean up when brig ends and its session stays.
	parkGrace = 2 * time.Second
)

// ErrNameTaken is Open's answer when a session of that name exists. Without
// Options.Store names need not be unique.
var ErrNameTaken = store.ErrNameTaken

// record is what the store knows of a session.
type record struct {
	id   string // empty: nothing
	kept bool   // it outlives this brig
}

// keeping says that sessions opened now outlive this brig.
func (o *Orchestrator) keeping() bool { return o.options.Store != nil && o.now().keep }

// leaseFor is the lease of instances of that backend; zero: they end with brig.
func (o *Orchestrator) leaseFor(kind sandbox.Kind) time.Duration {
	if _, can := o.backends[kind].(sandbox.Adopter); !can || !o.keeping() {
		return 0
	}
	return o.lease
}

// enrol records a session that has its files and not yet an instance.
func (s *Session) enrol(ctx context.Context, so SessionOptions, id string, kind sandbox.Kind) error {
	db := s.o.options.Store
	if db == nil {
		return nil
	}
	now := time.Now()
	row := store.Session{
		ID: id, Name: so.Name, Want: so.Backend, Backend: kind, Base: s.spec.base, Limits: s.spec.most, Creator: s.creator,
		Workspace: s.home.workspace, Home: s.home.dir, Timezone: so.Timezone, Locale: so.Locale,
		Created: now, Lifetime: so.Lifetime, Used: now, Kept: s.o.keeping() && !so.Trial && !so.Passing,
	}
	if row.Kept {
		if err := s.o.hoist(); err != nil {
			return err
		}
		if err := s.home.sync(); err != nil {
			return err
		}
	}
	err := db.Add(ctx, row)
	if errors.Is(err, store.ErrNameTaken) && s.o.forgetNamed(ctx, so.Name) {
		err = db.Add(ctx, row)
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record = record{id, row.Kept}
	return nil
}

// forgetNamed frees a name that only the record of a dead brig's session holds,
// if nobody is to have that session again.
func (o *Orchestrator) forgetNamed(ctx context.Context, name string) bool {
	rows, err := o.options.Store.Sessions(ctx)
	if err != nil {
		return false
	}
	i := slices.IndexFunc(rows, func(row store.Session) bool { return row.Name == name })
	if i < 0 {
		return true // it went meanwhile
	}
	row := rows[i]
	return !row.Kept && row.Err == nil && !o.options.Owner.Alive(row.Process) && o.options.Store.Forget(ctx, row.ID, row.Process) == nil
}

func (s *Session) recorded() record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.record
}

// recordBound records the session's latest instance, and how to find it again.
func (s *Session) recordBound(b bound) error {
	r := s.recorded()
	if r.id == "" {
		return nil
	}
	resolution, err := json.Marshal(b.resolution)
	if err != nil {
		panic("BUG: a resolution does not marshal: " + err.Error())
	}
	i := store.Instance{
		ID: b.instance.ID(), Session: r.id, Backend: b.posture.Backend, Base: b.base, Workspace: s.spec.workspace,
		Posture: b.posture, Resolution: resolution, Created: time.Now(),
	}
	if k, can := b.instance.(sandbox.Keepable); can && r.kept {
		i.Handle = k.Handle()
	}
	ctx, cancel := bounded(context.Background(), recordBound)
	defer cancel()
	return s.o.options.Store.Bind(ctx, i)
}

// recordLost records that the session has no instance any more.
func (s *Session) recordLost() {
	s.mu.Lock()
	id, why, closing := s.record.id, s.loss, s.closing && s.expiry.reason != ReasonKept
	s.mu.Unlock()
	if id == "" || closing { // the whole row is about to go
		return
	}
	ctx, cancel := bounded(context.Background(), recordBound)
	defer cancel()
	s.leave(s.o.options.Store.Lose(ctx, id, why))
}

// recordBegin records that a run is being handed to the instance: whoever takes
// the session over can tell then what it was doing.
func (s *Session) recordBegin(run wire.RunID) {
	if id := s.recorded().id; id != "" {
		ctx, cancel := bounded(context.Background(), markBound)
		defer cancel()
		s.leave(s.o.options.Store.Begin(ctx, id, run, time.Now()))
	}
}

func (s *Session) recordEnd() {
	if id := s.recorded().id; id != "" {
		ctx, cancel := bounded(context.Background(), markBound)
		defer cancel()
		s.leave(s.o.options.Store.End(ctx, id, time.Now()))
	}
}

// unrecord forgets the session: it is being closed for good.
func (s *Session) unrecord(ctx context.Context) error {
	id := s.recorded().id
	if id == "" {
		return nil
	}
	ctx, cancel := bounded(ctx, recordBound)
	defer cancel()
	return s.o.options.Store.Remove(ctx, id)
}

// leave remembers what went wrong beside the session's work; Close tells it.
func (s *Session) leave(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && len(s.left) < maxLeft {
		s.left = append(s.left, err)
	}
}

// Note is what a person should know of the session's past, such as a run that was
// under way when an earlier brig ended; empty: nothing.
func (s *Session) Note() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.note
}

// stays says that the session is left to a later brig instead of closed; the
// caller holds mu.
func (s *Session) stays() bool {
	switch s.state {
	case StateIdle, StateRunning, StateInterrupting, StateLost, StateReplacing:
		return s.record.kept && s.o.keeping()
	case StateNew, StateStarting, StateClosing, StateClosed:
	}
	return false
}

// parked says that the session is being left to a later brig.
func (s *Session) parked() bool { return s.Reason() == ReasonKept }

// park lets go of the session's instance when nothing runs in it any more. Its
// files and its record stay.
func (s *Session) park(ctx context.Context) error {
	s.mu.Lock()
	instance, lost := s.bound.instance, s.lost
	s.mu.Unlock()
	if instance == nil {
		return nil
	}
	k, can := instance.(sandbox.Keepable)
	if can && (lost != nil || !isDone(instance)) {
		if err := k.Detach(ctx); err != nil {
			return fmt.Errorf("let go of instance %s: %w", instance.ID(), err)
		}
		return nil
	}
	if !isDone(instance) {
		s.mu.Lock()
		s.loss = fmt.Sprintf("brig ended, and the %s sandbox with it", s.bound.posture.Backend)
		s.mu.Unlock()
		defer s.recordLost()
	}
	return closeInstance(ctx, instance)
}
