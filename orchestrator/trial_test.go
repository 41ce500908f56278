package orchestrator

import (
	"context"
	"errors"
	"testing"

	"brig/orchestrator/sandbox"
	. "brig/orchestrator/sandbox/sandboxtest"
	"brig/orchestrator/wire"
)

// The self-test opens sessions that nobody else gets, and only while it asks for them.
func TestTrial(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) {
			o.Config.Execution.Backend, o.Config.Host.Sandbox = sandbox.Host, sandbox.ModeRequire
			o.Verdicts = func() map[sandbox.LayerID]Verdict { return nil }
		})
		s := r.open(t, SessionOptions{Trial: true})
		result, _ := run(t, s, RunRequest{}, Print("x"))
		want(t, result, sandbox.OK, wire.StateKept)
		r.host.Lose(s.latest().instance.ID(), sandbox.Ending{Cause: sandbox.Killed, Detail: "killed by the test"})
		result, _ = run(t, s, RunRequest{}, Print("x"))
		want(t, result, sandbox.OK, wire.StateLost)
		if r.host.Prepares() != 2 {
			t.Errorf("%d instances were started, want a second one for the lost one", r.host.Prepares())
		}
		shut(t, s)
		var refused *RefusedError
		if _, err := r.Open(context.Background(), SessionOptions{}); !errors.As(err, &refused) || refused.Code != CodeUnverified {
			t.Errorf("without a self-test: %v", err)
		}
	})
}

// A trial is still held against what its instance says of itself.
func TestTrialIsSealed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		open := []sandbox.LayerID{sandbox.FSWrite, sandbox.FSRead, sandbox.SyscallFilter}
		r := newRig(t, with(pretended(sandbox.Docker, open...)))
		s := r.open(t, SessionOptions{Trial: true})
		if got := s.Resolution(); !got.Weakened || len(got.Gaps) == 0 {
			t.Errorf("it does not say what is missing: %+v", got)
		}
		result, _ := run(t, s, RunRequest{}, Print("x"))
		if !result.Stamp.Uncontained {
			t.Errorf("its results do not say that nothing contains the code: %+v", result.Stamp)
		}
	})
}

// Prepared takes the pool's way without a pool, and takes nothing from one.
func TestPrepared(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, pool := range []bool{false, true} {
			r := newRig(t, func(o *Options) { o.Warm = pool })
			kept := 0
			if pool {
				kept = 1
				stocked(t, r, sandbox.Docker, kept)
			}
			base := r.options.Config.BaseFor(sandbox.Docker)
			base.Limits.Processes = 17
			s := r.open(t, SessionOptions{Prepared: true, Base: &base})
			if got := s.latest().limits.Processes; got != 17 {
				t.Errorf("it got the limits of another base: %d processes", got)
			}
			result, _ := run(t, s, RunRequest{}, WriteFile("f", "x"))
			want(t, result, sandbox.OK, wire.StateKept)
			if status := stocked(t, r, sandbox.Docker, kept); status.Warm != 1 || status.Cold != 0 || len(status.Shelves) != kept {
				t.Errorf("pool %v: %+v", pool, status)
			}
			if n := r.docker.Prepares(); n != 1+kept {
				t.Errorf("%d instances were prepared", n)
			}
			shut(t, s)
			if left := r.homes(t); len(left) != kept {
				t.Errorf("directories left: %v", left)
			}
		}
	})
}

// What goes wrong is told: a self-test that got a cold session instead would not know.
func TestPreparedFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		no := errors.New("it does not answer")
		f := &faulty{Memory: NewMemory(pretended(sandbox.Docker))}
		f.bind.Store(&no)
		r := newRig(t, func(o *Options) { o.Backends = []sandbox.Backend{f, NewMemory(pretended(sandbox.Host))} })
		if _, err := r.Open(context.Background(), SessionOptions{Prepared: true}); !errors.Is(err, no) {
			t.Errorf("got %v", err)
		}
		if _, err := r.Open(context.Background(), SessionOptions{Prepared: true, Workspace: t.TempDir()}); !errors.Is(err, errPreparedElsewhere) {
			t.Errorf("with a workspace: %v", err)
		}
		stocked(t, r, sandbox.Docker, 0)
		if n, left := f.Instances(), r.homes(t); n != 0 || len(left) != 0 {
			t.Errorf("%d instances and %v are left", n, left)
		}
	})
}

// A trial ends with its brig, also where sessions are kept.
func TestTrialIsNotKept(t *testing.T) {
	b := newHouse(t).start(t, keepOn)
	b.open(t, SessionOptions{Name: "kept"})
	b.open(t, SessionOptions{Name: "trial", Trial: true})
	if rows := b.rows(t); !rows["kept"].Kept || rows["trial"].Kept {
		t.Errorf("%+v", rows)
	}
}
