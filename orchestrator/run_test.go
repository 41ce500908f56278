package orchestrator

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"brig/orchestrator/sandbox"
	. "brig/orchestrator/sandbox/sandboxtest"
	"brig/orchestrator/wire"
)

func TestRunTellsHowItEnded(t *testing.T) {
	CheckGoroutines(t)
	s := newRig(t).open(t, SessionOptions{Name: "one"})
	for _, c := range []struct {
		name     string
		program  []Step
		cause    sandbox.Cause
		state    wire.State
		status   int
		signal   int
		reported bool
	}{
		{"ok", []Step{Print("hi")}, sandbox.OK, wire.StateKept, 0, 0, true},
		{"exit 0", []Step{Exit(0)}, sandbox.OK, wire.StateKept, 0, 0, true},
		{"exit 137", []Step{Exit(137)}, sandbox.Exit, wire.StateKept, 137, 0, true},
		{"hard exit", []Step{HardExit(3)}, sandbox.Exit, wire.StateLost, 3, 0, true},
		{"exception", []Step{Raise("ValueError", "no")}, sandbox.Exception, wire.StateKept, 0, 0, true},
		{"memory error", []Step{Hog(1 << 40)}, sandbox.Exception, wire.StateKept, 0, 0, true},
		{"signal", []Step{KillSelf(11)}, sandbox.Killed, wire.StateLost, 0, 11, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, _ := run(t, s, RunRequest{}, c.program...)
			want(t, r, c.cause, c.state)
			if r.Status != c.status || r.Signal != c.signal || r.RunnerReported != c.reported {
				t.Errorf("status %d, signal %d, reported %v", r.Status, r.Signal, r.RunnerReported)
			}
			if (r.Exception != nil) != (c.cause == sandbox.Exception) {
				t.Errorf("exception %+v", r.Exception)
			}
			if s.State() != StateIdle {
				t.Errorf("session is %s", s.State())
			}
		})
	}
}

func TestRunCountsWhatItSaw(t *testing.T) {
	s := newRig(t).open(t, SessionOptions{})
	r, out := run(t, s, RunRequest{}, Print("hello"), PrintErr("oh"), Display("text/html", 64), Value(42))
	want(t, r, sandbox.OK, wire.StateKept)
	if out != "hello\n" || r.Stdout != (wire.Count{Total: 6, Kept: 6}) || r.Stderr != (wire.Count{Total: 3, Kept: 3}) {
		t.Errorf("output %q, counts %+v %+v", out, r.Stdout, r.Stderr)
	}
	if r.Displays != 2 {
		t.Errorf("%d displays", r.Displays)
	}
	if r.Elapsed <= 0 || r.Stamp.Session != string(s.latest().instance.ID()) && r.Stamp.Session == "" {
		t.Errorf("%+v", r)
	}

	const much = 5 << 20
	r, out = run(t, s, RunRequest{}, Write(Stdout, Numbered, much))
	want(t, r, sandbox.OK, wire.StateKept)
	if r.Stdout.Total != much || r.Stdout.Kept != int64(len(out)) || r.Stdout.Dropped != much-r.Stdout.Kept {
		t.Errorf("%d bytes seen, counts %+v", len(out), r.Stdout)
	}
	if r.Log == nil || r.Log.Bytes != much {
		t.Errorf("log %+v", r.Log)
	}
}

// A hundred thousand writes of one byte must not become as many calls for a slow caller.
func TestSlowEmitLosesNothingAndStopsNoClock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newRig(t).open(t, SessionOptions{})
		var kept int64
		begin := time.Now()
		r, err := s.Run(t.Context(), RunRequest{Source: Program{Write(Stdout, Random, 1<<20)}.Source(), Timeout: time.Second}, func(e wire.Event) error {
			time.Sleep(time.Second)
			kept += int64(len(e.Data))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		want(t, r, sandbox.OK, wire.StateKept)
		if r.Stdout.Kept != 1<<20 || kept != 1<<20 || r.Stdout.Dropped != 0 {
			t.Errorf("kept %d, counts %+v", kept, r.Stdout)
		}
		if r.Elapsed >= time.Second || time.Since(begin) < 10*time.Second {
			t.Errorf("elapsed %s of %s", r.Elapsed, time.Since(begin))
		}
	})
}

// The interpreter is free for others while one caller does not take its output.
func TestBlockedEmitHoldsNobodyElseUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newRig(t).open(t, SessionOptions{})
		unblock, done := make(chan struct{}), make(chan Result)
		go func() {
			r, err := s.Run(context.Background(), RunRequest{Source: Program{Print("a"), Deaf()}.Source(), Timeout: time.Second}, func(wire.Event) error {
				<-unblock
				return nil
			})
			if err != nil {
				t.Error(err)
			}
			done <- r
		}()
		synctest.Wait()
		begin := time.Now()
		r, out := run(t, s, RunRequest{}, Print("b"))
		want(t, r, sandbox.OK, wire.StateKept)
		within(t, "the second run's turn", time.Since(begin), time.Second, 1300*time.Millisecond)
		if out != "b\n" {
			t.Errorf("output %q", out)
		}
		shut(t, s) // and Close does not wait for it either
		close(unblock)
		want(t, <-done, sandbox.Timeout, wire.StateLost)
	})
}

func TestEmitErrorEndsTheRunAndComesBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newRig(t).open(t, SessionOptions{})
		broken := errors.New("broken pipe")
		r, err := s.Run(t.Context(), RunRequest{Source: Program{Print("a"), Deaf()}.Source()}, func(wire.Event) error { return broken })
		if !errors.Is(err, broken) {
			t.Errorf("error %v", err)
		}
		want(t, r, sandbox.Cancelled, wire.StateLost)
		if !strings.Contains(r.Detail, "broken pipe") || r.Elapsed > time.Second {
			t.Errorf("%+v", r)
		}
		r, out := run(t, s, RunRequest{}, Print("next"))
		want(t, r, sandbox.OK, wire.StateKept)
		if out != "next\n" {
			t.Errorf("output %q", out)
		}
	})
}

func TestCancelledRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newRig(t).open(t, SessionOptions{})
		ctx, cancel := context.WithCancelCause(t.Context())
		a := start(ctx, s, RunRequest{}, Deaf())
		<-a.began
		cancel(errors.New("the browser was closed"))
		r := a.wait(t)
		want(t, r, sandbox.Cancelled, wire.StateLost)
		if !strings.Contains(r.Detail, "the browser was closed") || a.out.stdout.Len() == 0 {
			t.Errorf("%+v", r)
		}
		if s.State() != StateIdle {
			t.Errorf("session is %s", s.State())
		}
	})
}

func TestRequestsOutOfRange(t *testing.T) {
	s := newRig(t).open(t, SessionOptions{})
	for _, c := range []struct {
		req  RunRequest
		want error
	}{
		{RunRequest{Timeout: -1}, ErrTimeoutRange},
		{RunRequest{Timeout: time.Hour}, ErrTimeoutRange},
		{RunRequest{Source: make([]byte, wire.MaxCode+1)}, ErrTooLarge},
	} {
		if r, err := s.Run(t.Context(), c.req, nil); !errors.Is(err, c.want) || r.Cause != "" {
			t.Errorf("got %v and %+v, want %v", err, r, c.want)
		}
	}
	if r, _ := run(t, s, RunRequest{Timeout: 10 * time.Minute}, Print("the longest")); r.Cause != sandbox.OK {
		t.Errorf("control: %+v", r)
	}
}

func TestRunWithoutEmit(t *testing.T) {
	s := newRig(t).open(t, SessionOptions{})
	r, err := s.Run(t.Context(), RunRequest{Source: Program{Print("hi")}.Source()}, nil)
	if err != nil || r.Cause != sandbox.OK || r.Stdout.Kept != 3 {
		t.Errorf("%+v, %v", r, err)
	}
}
