package orchestrator

import (
	"context"
	"errors"
	"fmt"
)

// Close ends the session whatever it is doing: waiting runs are sent away, the
// current one is answered as cancelled, the instance and an ephemeral workspace
// are removed. It is idempotent, may overlap everything, and takes as long as
// closing an instance may, or until ctx ends; then the rest goes on in the
// background and another Close can wait for it.
func (s *Session) Close(ctx context.Context) error {
	s.mu.Lock()
	s.beginClose(ReasonAsked)
	s.mu.Unlock()
	select {
	case <-s.gone:
		return s.closeErr
	case <-ctx.Done():
		return fmt.Errorf("close the session: %w", context.Cause(ctx))
	}
}

// beginClose starts the end of the session, once; the caller holds mu.
func (s *Session) beginClose(reason Reason) {
	if s.closing {
		return
	}
	s.closing = true
	s.expiry.reason = reason
	if s.expiry.timer != nil {
		s.expiry.timer.Stop()
	}
	s.move(eventClose)
	s.end()
	s.queue.close()
	s.o.work.Go(s.shutdown)
}

// shutdown takes the session apart, within sessionBound.
func (s *Session) shutdown() {
	ctx, cancel := bounded(context.Background(), sessionBound)
	defer cancel()
	var errs []error
	if instance := s.latest().instance; instance != nil {
		errs = append(errs, closeInstance(ctx, instance))
	}
	// What was under way ends now: it has lost its instance, or will close the one it gets.
	errs = append(errs, waitFor(ctx, &s.work, "the session's run"))
	if s.files != nil {
		errs = append(errs, s.files.Close())
	}
	errs = append(errs, s.home.remove())

	s.mu.Lock()
	errs = append(errs, s.left...)
	s.move(eventClosed)
	s.mu.Unlock()
	s.closeErr = errors.Join(errs...)
	s.o.dismiss(s)
	close(s.gone)
}
