package orchestrator

import (
	"context"
	"errors"

	"brig/orchestrator/sandbox"
)

// ready makes sure that an instance is there and that its workspace is the
// session's; the caller has the interpreter. ctx ends it, and with it what is on
// its way: an interrupt never waits for a file.
func (s *Session) ready(ctx context.Context) (fresh string, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.life, func() { cancel(ErrClosed) })()
	for attempt := 0; ; attempt++ {
		said, err := s.ensure(ctx)
		if said != "" {
			fresh = said
		}
		if err != nil {
			return fresh, err
		}
		s.mu.Lock()
		m := s.mirror
		s.mu.Unlock()
		if m == nil {
			return fresh, nil
		}
		err = m.before(ctx)
		// An instance that was lost over it is replaced, as one that was lost before is.
		var lost *sandbox.Lost
		if err == nil || attempt > 0 || !errors.As(err, &lost) || ctx.Err() != nil {
			return fresh, err
		}
	}
}

// bringBack carries what a run changed to the session's workspace. The run has
// ended, but not its turn: Interrupt ends the carrying, and so does Close.
func (s *Session) bringBack(v *supervisor) []string {
	s.mu.Lock()
	m := s.mirror
	if m == nil || m.instance != v.instance {
		s.mu.Unlock()
		return nil
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	s.active = func() { cancel(errAsked) }
	s.mu.Unlock()
	if v.done[stepClose] || isDone(v.instance) {
		return []string{"the files that the code had changed since the run began went with the instance"}
	}
	defer context.AfterFunc(s.life, func() { cancel(ErrClosed) })()
	return m.after(ctx)
}
