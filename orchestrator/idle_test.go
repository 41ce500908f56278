package orchestrator

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"brig/orchestrator/sandbox"
	. "brig/orchestrator/sandbox/sandboxtest"
	"brig/orchestrator/wire"
)

// A session that nobody uses ends, and says why to whoever comes back.
func TestIdle(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		s := r.open(t, SessionOptions{})
		kept := r.open(t, SessionOptions{Keep: true})
		const idle = 30 * time.Minute // the default
		// Each use puts the end off; a run longer than the limit is one use.
		for range 3 {
			time.Sleep(idle - time.Second)
			run(t, s, RunRequest{}, Print("x"))
			kept.Workspace()
		}
		time.Sleep(idle - time.Second)
		if _, err := s.Variables(context.Background()); err != nil {
			t.Fatal(err)
		}
		if got := kept.State(); got != StateIdle {
			t.Fatalf("a second before the limit it is %s", got)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := kept.State(); got != StateClosed || kept.Reason() != ReasonIdle {
			t.Errorf("after the limit it is %s, reason %q", got, kept.Reason())
		}
		if _, err := os.Stat(kept.home.workspace); err != nil {
			t.Errorf("a kept workspace: %v", err)
		}
		if got := s.State(); got != StateIdle || s.Reason() != "" {
			t.Errorf("the other one is %s, reason %q", got, s.Reason())
		}
		_, err := kept.Run(context.Background(), RunRequest{Source: Program{Print("x")}.Source()}, nil)
		if !errors.Is(err, ErrClosed) || !strings.Contains(err.Error(), "nobody had used it for 30m0s") {
			t.Errorf("a run on it: %v", err)
		}
		time.Sleep(idle)
		synctest.Wait()
		if _, err := os.Stat(s.home.workspace); s.State() != StateClosed || !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the other one is %s, its workspace: %v", s.State(), err)
		}
		if n := r.docker.Instances(); n != 0 {
			t.Errorf("%d instances are left", n)
		}
	})
}

// A run is never ended for idleness, however long it takes.
func TestIdleRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.Config.Limits.Idle, o.Config.Limits.MaxTimeout = time.Minute, time.Hour })
		s := r.open(t, SessionOptions{})
		result, _ := run(t, s, RunRequest{Timeout: time.Hour}, Sleep(50*time.Minute))
		want(t, result, sandbox.OK, wire.StateKept)
		if got := s.State(); got != StateIdle {
			t.Errorf("after the run it is %s", got)
		}
		time.Sleep(time.Minute + time.Millisecond)
		synctest.Wait()
		if s.Reason() != ReasonIdle {
			t.Errorf("a minute later: %s, %q", s.State(), s.Reason())
		}
	})
}

// A lifetime ends a session whatever it is doing, also what waits.
func TestLifetime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		s := r.open(t, SessionOptions{Lifetime: 20 * time.Second})
		a := start(context.Background(), s, RunRequest{}, Sleep(25*time.Second))
		<-a.began
		waiting := start(context.Background(), s, RunRequest{})
		begun := time.Now()
		for _, x := range []*started{a, waiting} {
			got := x.wait(t)
			if got.Cause != sandbox.Cancelled || !strings.Contains(got.Detail, "lifetime of 20s") {
				t.Errorf("cause %s (%s)", got.Cause, got.Detail)
			}
		}
		within(t, "the end", time.Since(begun), 19*time.Second, 21*time.Second)
		synctest.Wait()
		if s.State() != StateClosed || s.Reason() != ReasonLifetime {
			t.Errorf("it is %s, reason %q", s.State(), s.Reason())
		}
		if _, err := r.Open(context.Background(), SessionOptions{Lifetime: -1}); !errors.Is(err, ErrLifetime) {
			t.Errorf("a lifetime below zero: %v", err)
		}
	})
}

// Whoever closes a session that is ending by itself waits for that end.
func TestCloseDuringExpiry(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		for range 20 {
			s := r.open(t, SessionOptions{Lifetime: time.Second})
			time.Sleep(time.Second)
			shut(t, s)
			if got := s.Reason(); got != ReasonLifetime && got != ReasonAsked {
				t.Errorf("reason %q", got)
			}
		}
	})
}
