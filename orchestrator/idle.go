package orchestrator

import (
	"errors"
	"fmt"
	"time"
)

// Every deadline of a session is kept by the monotonic clock: setting the
// machine's time changes nothing. On Linux that clock stands still while the
// machine sleeps, so a session outlives a suspended laptop, and a run that was on
// goes on with the time it had left. A brig that is stopped (SIGSTOP) for longer
// than a deadline finds the deadline passed when it goes on, and answers at once.

// Reason is why a session was closed.
type Reason string

const (
	ReasonAsked    Reason = "asked"    // Session.Close or Orchestrator.Close
	ReasonIdle     Reason = "idle"     // nobody used it for limits.idle
	ReasonLifetime Reason = "lifetime" // SessionOptions.Lifetime was over
	ReasonKept     Reason = "kept"     // brig ends and leaves it to a later one
)

// ErrLifetime is returned for a SessionOptions.Lifetime below zero.
var ErrLifetime = errors.New("the lifetime of a session is not below zero")

// expiry is when and why a session ends by itself.
type expiry struct {
	idle     time.Duration
	lifetime time.Duration // zero: none
	opened   time.Time
	used     time.Time // when it was used last
	least    time.Time // it does not end idle before
	users    int       // runs and other questions that are under way
	timer    *time.Timer
	reason   Reason // of the end; empty before
}

// watchExpiry starts the clock of a session that has its first instance; the caller holds mu.
func (s *Session) watchExpiry() {
	now := time.Now()
	s.expiry.idle, s.expiry.opened, s.expiry.used = s.o.now().idle, now, now
	s.expiry.timer = time.AfterFunc(s.expiry.next(now), s.expire)
}

// next is after how long the session has to be looked at again.
func (e *expiry) next(now time.Time) time.Duration {
	next := e.idleEnds().Sub(now)
	if e.users > 0 {
		next = e.idle
	}
	if e.lifetime > 0 {
		next = min(next, e.lifetime-now.Sub(e.opened))
	}
	return max(next, time.Millisecond)
}

// idleEnds is when it ends if nobody uses it.
func (e *expiry) idleEnds() time.Time {
	if at := e.used.Add(e.idle); at.After(e.least) {
		return at
	}
	return e.least
}

// foundFor is how long a session that a brig takes over stays at least, however long
// nobody has used it: time without a brig, in which nobody could, must not cost it.
const foundFor = 10 * time.Minute

// found puts the latest use back to what is on record: being taken over is none. The
// caller holds mu.
func (e *expiry) found(used time.Time) {
	now := time.Now()
	e.used, e.least = now.Add(-max(now.Sub(used), 0)), now.Add(min(foundFor, e.idle))
	e.timer.Reset(e.next(now))
}

// due is why the session has to end now; empty: it has not.
func (e *expiry) due(now time.Time) Reason {
	switch {
	case e.lifetime > 0 && now.Sub(e.opened) >= e.lifetime:
		return ReasonLifetime
	case e.users == 0 && !now.Before(e.idleEnds()):
		return ReasonIdle
	}
	return ""
}

// expire closes the session if its time is over, or looks again later. It runs
// on the timer's goroutine, which ends with it.
func (s *Session) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return
	}
	now := time.Now()
	if reason := s.expiry.due(now); reason != "" {
		s.beginClose(reason)
		return
	}
	s.expiry.timer.Reset(s.expiry.next(now))
}

// use notes that the session is used until the returned function is called: it
// is not idle meanwhile. The caller holds mu.
func (s *Session) use() (unused func()) {
	s.expiry.users++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.expiry.users--
		s.expiry.used = time.Now()
		s.changed()
	}
}

// Reason is why the session was closed; empty while it is open.
func (s *Session) Reason() Reason {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.expiry.reason
}

// endedBy words why a session was closed, for the result of what was under way.
func (s *Session) endedBy() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch e := s.expiry; e.reason {
	case ReasonIdle:
		return fmt.Sprintf("the session was closed, because nobody had used it for %s", e.idle)
	case ReasonLifetime:
		return fmt.Sprintf("the session was closed at the end of its lifetime of %s", e.lifetime)
	case ReasonKept:
		return "brig ended, and keeps the session"
	case ReasonAsked:
	}
	return "the session was closed"
}

// closedError makes ErrClosed say why, where the session ended by itself.
func (s *Session) closedError(err error) error {
	if reason := s.Reason(); !errors.Is(err, ErrClosed) || reason == "" || reason == ReasonAsked {
		return err
	}
	return fmt.Errorf("%s: %w", s.endedBy(), err)
}
