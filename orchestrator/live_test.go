package orchestrator

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"brig/orchestrator/sandbox"
	. "brig/orchestrator/sandbox/sandboxtest"
	"brig/orchestrator/wire"
)

func TestRenewMovesTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		s := r.open(t, SessionOptions{Lifetime: time.Minute})
		time.Sleep(50 * time.Second)
		if err := s.Renew(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		if i := s.Info(); time.Until(i.Expires) != time.Minute {
			t.Errorf("it expires in %s", time.Until(i.Expires))
		}
		time.Sleep(59 * time.Second)
		if err := s.Renew(t.Context(), 0); err != nil { // a use, and no more
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		<-s.Gone()
		if got := s.Reason(); got != ReasonLifetime {
			t.Errorf("closed by %s", got)
		}
		if err := s.Renew(t.Context(), time.Minute); !errors.Is(err, ErrClosed) {
			t.Errorf("%v", err)
		}
		if err := s.Renew(t.Context(), -1); !errors.Is(err, ErrLifetime) {
			t.Errorf("%v", err)
		}
	})
}

// What a session asked for, and what it was given, is the same in a later brig.
func TestLessGoesWithTheSession(t *testing.T) {
	h := newHouse(t)
	first := h.start(t)
	most := sandbox.Limits{Memory: 128 << 20, Processes: 1 << 30}
	s := first.open(t, SessionOptions{Name: "a", Limits: most, Creator: "agent", Lifetime: time.Hour})
	check := func(s *Session) {
		t.Helper()
		i, d := s.Info(), sandbox.DefaultLimits()
		if i.Limits.Memory != 128<<20 || i.Limits.Processes != d.Processes || i.Limits.FileSize != d.FileSize || i.Creator != "agent" || i.Name != "a" {
			t.Errorf("%+v", i)
		}
	}
	check(s)
	run(t, s, RunRequest{}, Print("x"))
	if err := s.Renew(t.Context(), 2*time.Hour); err != nil {
		t.Fatal(err)
	}
	id := s.ID()
	passing := first.open(t, SessionOptions{Passing: true})
	first.crash(t)
	next := h.start(t)
	got := next.adopt(t)
	if len(got) != 1 {
		t.Fatalf("%d sessions, and %s was passing", len(got), passing.ID())
	}
	s = got["a"]
	check(s)
	i := s.Info()
	if i.ID != id || i.Runs != 1 || i.State != StateIdle || time.Until(i.Expires).Round(time.Minute) != 2*time.Hour {
		t.Errorf("%+v", i)
	}
	shut(t, s)
}

// An observer that cannot write down where code will run keeps it from running.
func TestBoundIsAskedFirst(t *testing.T) {
	r := newRig(t)
	errNo := errors.New("the audit log is full")
	var mu sync.Mutex
	asked, refuse := 0, true
	states := map[State]bool{}
	seen := make(chan struct{}, 100)
	r.Observe(Observer{
		Bound: func(s *Session, res Resolution, st Stamp) error {
			mu.Lock()
			defer mu.Unlock()
			asked++
			if s.ID() == "" || res.Resolved != sandbox.Docker || st.Containment != "contained" {
				t.Errorf("%s, %+v, %+v", s.ID(), res, st)
			}
			if refuse {
				return errNo
			}
			return nil
		},
		Changed: func(s *Session) {
			mu.Lock()
			defer mu.Unlock()
			states[s.state] = true // locked by whoever calls
			select {
			case seen <- struct{}{}:
			default:
			}
		},
	})
	if _, err := r.Open(t.Context(), SessionOptions{}); !errors.Is(err, errNo) {
		t.Fatalf("%v", err)
	}
	if n := r.docker.Instances(); n != 0 {
		t.Errorf("%d instances are left", n)
	}
	mu.Lock()
	refuse = false
	mu.Unlock()
	s := r.open(t, SessionOptions{})
	run(t, s, RunRequest{Once: true}, Print("x"))
	run(t, s, RunRequest{}, Print("x")) // in a fresh instance, which is asked about too
	shut(t, s)
	mu.Lock()
	defer mu.Unlock()
	if asked != 3 {
		t.Errorf("asked %d times", asked)
	}
	for _, want := range []State{StateStarting, StateIdle, StateRunning, StateLost, StateReplacing, StateClosing, StateClosed} {
		if !states[want] {
			t.Errorf("%s was not told", want)
		}
	}
}

func TestRunTellsHowFarItIs(t *testing.T) {
	r := newRig(t)
	s := r.open(t, SessionOptions{})
	first := start(t.Context(), s, RunRequest{}, Spin())
	<-first.began
	ctx, cancel := context.WithCancelCause(t.Context())
	id := NewRunID()
	accepted, done := make(chan struct{}), make(chan Result, 1)
	go func() {
		result, err := s.Run(ctx, RunRequest{
			ID: id, Source: Program{Print("never")}.Source(), Accepted: func() { close(accepted) }, Began: func() { t.Error("it began") },
		}, nil)
		if err != nil {
			t.Error(err)
		}
		done <- result
	}()
	<-accepted
	if i := s.Info(); i.State != StateRunning || i.Queued != 1 || i.Run == "" || i.Run == id {
		t.Errorf("%+v", i)
	}
	cancel(CancelCause("the operator cancelled it"))
	got := <-done
	if got.Run != id || got.Cause != sandbox.Cancelled || !strings.HasPrefix(got.Detail, "the operator cancelled it") || strings.Contains(got.Detail, "went away") {
		t.Errorf("%+v", got)
	}
	if err := s.Interrupt(t.Context()); err != nil {
		t.Fatal(err)
	}
	first.wait(t)
	began := false
	result, err := s.Run(t.Context(), RunRequest{Source: Program{Print("x")}.Source(), Began: func() { began = true }}, func(wire.Event) error { return nil })
	if err != nil || !began || result.Cause != sandbox.OK {
		t.Errorf("%+v, %v", result, err)
	}
	if _, err := s.Usage(t.Context()); err != nil {
		t.Error(err)
	}
	if i := s.Info(); i.Run != "" || i.Queued != 0 || i.Runs != 2 {
		t.Errorf("%+v", i)
	}
}
