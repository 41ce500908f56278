package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"brig/orchestrator/sandbox"
)

// Close ends the session whatever it is doing: waiting runs are sent away, the
// current one is answered as cancelled, the instance and an ephemeral workspace
// are removed. It is idempotent, may overlap everything, and takes as long as
// closing an instance may, or until ctx ends; then the rest goes on in the
// background and another Close can wait for it.
func (s *Session) Close(ctx context.Context) error { return s.close(ctx, false) }

// close leaves a kept session to a later brig if brig is ending.
func (s *Session) close(ctx context.Context, ending bool) error {
	s.mu.Lock()
	reason := ReasonAsked
	if ending && s.stays() {
		reason = ReasonKept
	}
	s.beginClose(reason)
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
	parked := s.parked()
	if instance := s.latest().instance; instance != nil && !parked {
		errs = append(errs, closeInstance(ctx, instance))
	}
	// What was under way ends now: it has lost its instance, or will close the one it
	// gets, or was asked to end.
	errs = append(errs, waitFor(ctx, &s.work, "the session's run"))
	if parked {
		errs = append(errs, s.park(ctx))
	} else {
		errs = append(errs, s.endLost(ctx), s.unrecord(ctx))
	}
	if s.files != nil {
		errs = append(errs, s.files.Close())
	}
	if !parked {
		errs = append(errs, s.home.remove())
	}

	s.mu.Lock()
	errs = append(errs, s.left...)
	s.move(eventClosed)
	s.mu.Unlock()
	s.closeErr = errors.Join(distinct(errs)...)
	s.o.dismiss(s)
	close(s.gone)
}

// distinct leaves out what says once more what an earlier error says: an engine
// that hangs fails at the same container when its instance is retired and again
// when the session is closed, in other words perhaps.
func distinct(errs []error) []error {
	var out []error
	said := map[string]bool{}
	for _, err := range errs {
		if err == nil || said[err.Error()] {
			continue
		}
		said[err.Error()] = true
		if left := onlyLeft(err); left != nil {
			what := left.What
			if !slices.ContainsFunc(what, func(w string) bool { return !said["left: "+w] }) {
				continue
			}
			for _, w := range what {
				said["left: "+w] = true
			}
		}
		out = append(out, err)
	}
	return out
}

// onlyLeft is what err says that it left behind, if it says nothing else: nothing
// is looked for in an error that joins several.
func onlyLeft(err error) *sandbox.LeftBehind {
	for ; err != nil; err = errors.Unwrap(err) {
		if left, ok := err.(*sandbox.LeftBehind); ok {
			return left
		}
	}
	return nil
}
