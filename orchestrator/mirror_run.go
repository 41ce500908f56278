package orchestrator

import (
	"context"
	"errors"
	"time"

	"brig/orchestrator/sandbox"
)

// replaceWithin is how soon an instance must have been lost for another one to be
// tried for the same run.
const replaceWithin = 10 * time.Second

// ready makes sure that an instance is there, that its workspace is the session's
// and that it knows the session's datasets; the caller has the interpreter. ctx ends it, and with it what is on
// its way: an interrupt never waits for a file.
func (s *Session) ready(ctx context.Context, progress func(done, total int)) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.life, func() { cancel(ErrClosed) })()
	if err := s.permitted(); err != nil {
		return err
	}
	for attempt := 0; ; attempt++ {
		began := time.Now()
		_, err := s.ensure(ctx)
		if err != nil {
			return err
		}
		s.mu.Lock()
		m := s.mirror
		s.mu.Unlock()
		if m != nil {
			unwatch := m.watch(progress)
			err = m.before(ctx)
			unwatch()
		}
		if err == nil {
			err = s.tellTables(ctx)
		}
		// An instance that was lost over it is replaced, as one that was lost before is.
		// Not one that kept everybody waiting: the next one would for as long again.
		var lost *sandbox.Lost
		if err == nil || attempt > 0 || !errors.As(err, &lost) || ctx.Err() != nil || time.Since(began) > replaceWithin {
			return err
		}
	}
}

// bringBack carries what a run changed to the session's workspace. The run has
// ended, but not its turn: Interrupt ends the carrying, and so does Close.
func (s *Session) bringBack(v *supervisor, progress func(done, total int)) uncarried {
	s.mu.Lock()
	m := s.mirror
	if m == nil || m.instance != v.instance {
		s.mu.Unlock()
		return uncarried{}
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	s.active = func() { cancel(errAsked) }
	s.mu.Unlock()
	if v.done[stepClose] || isDone(v.instance) {
		gone := []string{"the files that the code had changed since the run began went with the instance"}
		return uncarried{notes: gone, lost: gone}
	}
	defer context.AfterFunc(s.life, func() { cancel(ErrClosed) })()
	defer m.watch(progress)()
	return m.after(ctx)
}

// watch lets progress be told of what travels until unwatch is called.
func (m *mirror) watch(progress func(done, total int)) (unwatch func()) {
	set := func(f func(done, total int)) {
		m.pacing.Lock()
		defer m.pacing.Unlock()
		m.progress = f
	}
	set(progress)
	return func() { set(nil) }
}
