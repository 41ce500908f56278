package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"brig/orchestrator/sandbox"
	. "brig/orchestrator/sandbox/sandboxtest"
	"brig/orchestrator/wire"
)

func TestQueueIsFairShortAndExact(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newRig(t).open(t, SessionOptions{})
		first := start(t.Context(), s, RunRequest{}, Sleep(10*time.Second))
		<-first.began
		var order []string
		var waiting []*started
		for i := range queueLength {
			waiting = append(waiting, start(t.Context(), s, RunRequest{}, Sleep(time.Second), Print(fmt.Sprint(i))))
			synctest.Wait()
		}
		if _, err := s.Run(t.Context(), RunRequest{}, nil); !errors.Is(err, ErrBusy) {
			t.Errorf("one too many: %v", err)
		}
		if err := s.Reset(t.Context(), false); !errors.Is(err, ErrBusy) {
			t.Errorf("a reset too many: %v", err)
		}
		want(t, first.wait(t), sandbox.OK, wire.StateKept)
		for i, a := range waiting {
			r := a.wait(t)
			want(t, r, sandbox.OK, wire.StateKept)
			if wait := time.Duration(10+i) * time.Second; r.Queued != wait {
				t.Errorf("run %d waited %s, want %s", i, r.Queued, wait)
			}
			order = append(order, a.out.stdout.String())
		}
		if !slices.IsSorted(order) {
			t.Errorf("order %q", order)
		}
	})
}

func TestCancelledWhileWaiting(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newRig(t).open(t, SessionOptions{})
		first := start(t.Context(), s, RunRequest{}, Sleep(10*time.Second))
		<-first.began
		ctx, cancel := context.WithCancel(t.Context())
		second := start(ctx, s, RunRequest{}, WriteFile("ran", "no"))
		synctest.Wait()
		third := start(t.Context(), s, RunRequest{}, Print("third"))
		synctest.Wait()
		time.Sleep(time.Second)
		cancel()
		r := second.wait(t)
		want(t, r, sandbox.Cancelled, wire.StateKept)
		if r.Queued != time.Second || r.Elapsed != 0 || second.out.stdout.Len() != 0 {
			t.Errorf("%+v", r)
		}
		// An interrupt is for the run that runs, not for those that wait.
		if err := s.Interrupt(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(t, first.wait(t), sandbox.Interrupted, wire.StateKept)
		want(t, third.wait(t), sandbox.OK, wire.StateKept)
		if r, _ := run(t, s, RunRequest{}, ReadFile("ran")); r.Cause != sandbox.Exception {
			t.Errorf("the cancelled run ran: %+v", r)
		}

		gone, leave := context.WithCancel(t.Context())
		leave()
		r, err := s.Run(gone, RunRequest{Source: Program{WriteFile("ran", "no")}.Source()}, nil)
		if err != nil {
			t.Fatal(err)
		}
		want(t, r, sandbox.Cancelled, wire.StateKept)
	})
}

// TestQueueHammer lets callers come and go; at the end the turn must be free.
func TestQueueHammer(t *testing.T) {
	q := newQueue()
	turns := make(chan int, 1)
	turns <- 0
	done := make(chan struct{})
	for i := range 16 {
		go func() {
			defer func() { done <- struct{}{} }()
			for n := range 500 {
				ctx, cancel := context.WithCancel(t.Context())
				if (n+i)%3 == 0 {
					go cancel()
				}
				if q.enter(ctx, nil) == nil {
					select {
					case n := <-turns:
						turns <- n + 1
					default:
						t.Error("two have the turn")
					}
					q.leave()
				}
				cancel()
			}
		}()
	}
	for range 16 {
		<-done
	}
	if err := q.enter(t.Context(), nil); err != nil {
		t.Fatalf("the turn was lost: %v", err)
	}
	if len(q.waiting) != 0 {
		t.Errorf("%d wait for ever", len(q.waiting))
	}
	q.close()
	q.close()
	if err := q.enter(t.Context(), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("after close: %v", err)
	}
}

func TestResetAndVariables(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rig := newRig(t)
		s := rig.open(t, SessionOptions{})
		run(t, s, RunRequest{}, Set("x", 7))
		body, err := s.Variables(t.Context())
		if err != nil || len(body.Variables) != 1 || body.Variables[0].Name != "x" {
			t.Fatalf("variables %+v, %v", body, err)
		}
		a := start(t.Context(), s, RunRequest{}, Sleep(time.Second))
		<-a.began
		if _, err := s.Variables(t.Context()); !errors.Is(err, ErrBusy) {
			t.Errorf("variables beside a run: %v", err)
		}
		begin := time.Now()
		if err := s.Reset(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		within(t, "the reset's turn", time.Since(begin), time.Second, time.Second)
		want(t, a.wait(t), sandbox.OK, wire.StateKept)
		if body, err := s.Variables(t.Context()); err != nil || len(body.Variables) != 0 {
			t.Errorf("after the reset: %+v, %v", body, err)
		}

		rig.docker.Lose(s.latest().instance.ID(), sandbox.Ending{Cause: sandbox.Killed})
		if err := s.Reset(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		r, _ := run(t, s, RunRequest{}, Print("fresh as asked for"))
		want(t, r, sandbox.OK, wire.StateKept)
		if r.Detail != "" {
			t.Errorf("detail %q", r.Detail)
		}
	})
}
