package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"brig/orchestrator/sandbox"
)

// lostInstance is an instance without a connection that may live: the engine was
// restarted under it, or it is an earlier brig's and could not be taken up yet.
type lostInstance struct {
	instance sandbox.Instance // that was connected; nil: an earlier brig's
	kind     sandbox.Kind
	adoption sandbox.Adoption
	until    time.Time // when its lease is over for sure
}

// HeldError is about a session whose instance may live where brig does not reach it:
// two instances never share a workspace, so it gets no other one as long as that lasts.
type HeldError struct {
	Within time.Duration // when the instance has ended by itself
	Err    error         // why it cannot be reached
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("take up the session's instance, which ends by itself within %s if nobody can: %v", e.Within, e.Err)
}

func (e *HeldError) Unwrap() error { return e.Err }

// part takes leave of an instance that was lost: it is closed, unless only its
// connection went and it has a lease to live on; the caller holds mu. The next
// instance waits for it.
func (s *Session) part(i sandbox.Instance) {
	k, can := i.(sandbox.Keepable)
	if !can || !s.record.kept || s.bound.base.Lease == 0 {
		s.retire(i)
		return
	}
	b := s.bound
	done := make(chan struct{})
	s.retired = done
	s.work.Go(func() {
		defer close(done)
		wait := time.NewTimer(closeUnhurried)
		defer wait.Stop()
		select {
		case <-i.Done():
		case <-wait.C:
		}
		if isDone(i) && i.Cause().Cause == sandbox.BackendLost {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.lost = &lostInstance{
				instance: i, kind: b.posture.Backend, until: time.Now().Add(b.base.Lease + leaseSlack),
				adoption: sandbox.Adoption{Handle: k.Handle(), ID: i.ID(), Base: b.base, Workspace: s.spec.workspace},
			}
			return
		}
		s.dispose(i)
	})
}

// dispose closes an instance that will take no further run.
func (s *Session) dispose(i sandbox.Instance) {
	s.leave(closeInstance(context.Background(), i))
	s.recordLost()
}

// replace gives a session that has lost its instance the same one back, if that
// lives, or a fresh one. Two instances never share a workspace: as long as the lost
// one may live and cannot be reached, it is an error.
func (s *Session) replace(ctx context.Context) (same bool, err error) {
	s.mu.Lock()
	l := s.lost
	s.mu.Unlock()
	if l == nil {
		return false, s.launch(ctx)
	}
	err = s.resume(ctx, l)
	switch {
	case err == nil:
		if k, can := l.instance.(sandbox.Keepable); can {
			detaching, cancel := bounded(ctx, closeBound)
			defer cancel()
			s.leave(k.Detach(detaching))
		}
		return true, nil
	case errors.Is(err, sandbox.ErrGone), time.Now().After(l.until):
		s.mu.Lock()
		s.lost, s.loss = nil, join(s.loss, err.Error())
		s.mu.Unlock()
		if l.instance != nil {
			s.dispose(l.instance)
		} else {
			s.recordLost()
		}
		return false, s.launch(ctx)
	}
	return false, &HeldError{Within: time.Until(l.until).Round(time.Second), Err: err}
}

// resume takes the session's instance up again. Close ends it as well.
func (s *Session) resume(ctx context.Context, l *lostInstance) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.life, func() { cancel(ErrClosed) })()
	b, err := s.o.takeUp(ctx, s.spec, l)
	if err != nil {
		return err
	}
	if err := s.receive(b); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = nil
	return nil
}

// endLost ends an earlier brig's instance that was never taken up: its session is closed.
func (s *Session) endLost(ctx context.Context) error {
	s.mu.Lock()
	l := s.lost
	s.lost = nil
	s.mu.Unlock()
	if l == nil || l.instance != nil { // that one was closed as any other
		return nil
	}
	return s.o.putDown(ctx, l)
}
