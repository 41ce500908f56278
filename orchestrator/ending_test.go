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

// The bound: the answer comes within 300 ms of the limit, grace included.
const answerBound = 300 * time.Millisecond

func TestTimeout(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps []Step
		stuck bool
		state wire.State
		most  time.Duration
		words string
		after State
	}{
		{"a sleep ends softly", []Step{Sleep(time.Hour)}, false, wire.StateKept, 10 * time.Millisecond, "", StateIdle},
		{"a spin ends softly", []Step{Spin()}, false, wire.StateKept, 10 * time.Millisecond, "", StateIdle},
		{"a deaf program ends by force", []Step{Deaf()}, false, wire.StateLost, answerBound, "by force", StateIdle},
		{"a silent runner loses its instance", []Step{Spin()}, true, wire.StateLost, answerBound, "did not answer", StateLost},
		{"children go as well", []Step{Holder(time.Hour), Daemon(time.Hour), Spin()}, false, wire.StateKept, 10 * time.Millisecond, "", StateIdle},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				o := pretended(sandbox.Docker)
				o.Stuck = c.stuck
				backend := NewMemory(o)
				s := newRig(t, func(o *Options) { o.Backends = []sandbox.Backend{backend} }).open(t, SessionOptions{})
				id := s.latest().instance.ID()
				r, out := run(t, s, RunRequest{Timeout: time.Second}, append([]Step{Print("so far")}, c.steps...)...)
				want(t, r, sandbox.Timeout, c.state)
				within(t, "the answer", r.Elapsed, time.Second, time.Second+c.most)
				if !strings.HasPrefix(out, "so far\n") || !strings.Contains(r.Detail, c.words) || r.RunnerReported {
					t.Errorf("output %q, %+v", out, r)
				}
				if incomplete := c.stuck; r.Stdout.Incomplete != incomplete || r.Stderr.Incomplete != incomplete {
					t.Errorf("the counts are %+v and %+v", r.Stdout, r.Stderr)
				}
				if s.State() != c.after {
					t.Errorf("session is %s, want %s", s.State(), c.after)
				}
				for _, p := range backend.Processes(id) {
					if p.Command != "supervisor" && p.Command != "worker" {
						t.Errorf("%s is left", p.Command)
					}
				}
			})
		})
	}
}

func TestTimeoutThatCameTooLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newRig(t).open(t, SessionOptions{})
		r, _ := run(t, s, RunRequest{Timeout: time.Second}, Sleep(999*time.Millisecond), Print("just in time"))
		want(t, r, sandbox.OK, wire.StateKept)
		synctest.Wait()
		r, out := run(t, s, RunRequest{}, Sleep(10*time.Second), Print("not hit by the earlier clock"))
		want(t, r, sandbox.OK, wire.StateKept)
		if out == "" {
			t.Error("no output")
		}
	})
}

func TestInterrupt(t *testing.T) {
	for _, c := range []struct {
		name        string
		steps       []Step
		stuck       bool
		state       wire.State
		least, most time.Duration
	}{
		{"softly", []Step{Spin()}, false, wire.StateKept, 0, 10 * time.Millisecond},
		{"by force", []Step{Deaf()}, false, wire.StateLost, 2 * time.Second, 2100 * time.Millisecond},
		{"a silent runner", []Step{Spin()}, true, wire.StateLost, 2500 * time.Millisecond, 2600 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				o := pretended(sandbox.Docker)
				o.Stuck = c.stuck
				s := newRig(t, with(o)).open(t, SessionOptions{})
				a := start(t.Context(), s, RunRequest{}, c.steps...)
				<-a.began
				synctest.Wait() // it is in its last step
				begin := time.Now()
				if err := s.Interrupt(t.Context()); err != nil {
					t.Fatal(err)
				}
				for range 2 { // more of them change nothing, and may come when it has ended
					if err := s.Interrupt(t.Context()); err != nil && !errors.Is(err, sandbox.ErrNotRunning) {
						t.Fatal(err)
					}
				}
				r := a.wait(t)
				want(t, r, sandbox.Interrupted, c.state)
				within(t, "the end", time.Since(begin), c.least, c.most)
			})
		})
	}
}

func TestInterruptOfNothing(t *testing.T) {
	s := newRig(t).open(t, SessionOptions{})
	if err := s.Interrupt(t.Context()); !errors.Is(err, sandbox.ErrNotRunning) {
		t.Errorf("before a run: %v", err)
	}
	run(t, s, RunRequest{}, Print("a"))
	if err := s.Interrupt(t.Context()); !errors.Is(err, sandbox.ErrNotRunning) {
		t.Errorf("after a run: %v", err)
	}
	r, _ := run(t, s, RunRequest{}, Print("b"))
	want(t, r, sandbox.OK, wire.StateKept)
}

// The first reason is the cause, and the earliest plan is the one that is kept.
func TestReasonsRace(t *testing.T) {
	for _, c := range []struct {
		name  string
		at    time.Duration // of the interrupt, with a limit of one second
		cause sandbox.Cause
		most  time.Duration
	}{
		{"interrupt first, then the limit", 900 * time.Millisecond, sandbox.Interrupted, time.Second + answerBound},
		{"limit first, then the interrupt", 1100 * time.Millisecond, sandbox.Timeout, time.Second + answerBound},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newRig(t).open(t, SessionOptions{})
				a := start(t.Context(), s, RunRequest{Timeout: time.Second}, Deaf())
				time.Sleep(c.at)
				if err := s.Interrupt(t.Context()); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if s.State() != StateInterrupting {
					t.Errorf("session is %s", s.State())
				}
				r := a.wait(t)
				want(t, r, c.cause, wire.StateLost)
				within(t, "the end", r.Elapsed, c.at, c.most)
			})
		})
	}
}

func TestCancelOvertakesAnInterrupt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newRig(t).open(t, SessionOptions{})
		ctx, cancel := context.WithCancel(t.Context())
		a := start(ctx, s, RunRequest{}, Deaf())
		<-a.began
		synctest.Wait() // it is in its last step
		begin := time.Now()
		if err := s.Interrupt(ctx); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		cancel()
		want(t, a.wait(t), sandbox.Interrupted, wire.StateLost)
		within(t, "the end", time.Since(begin), 0, 100*time.Millisecond)
	})
}

func TestLostInstance(t *testing.T) {
	t.Run("during a run", func(t *testing.T) {
		for _, cause := range append(sandbox.Causes(), "") {
			bubble(t, func(t *testing.T) {
				rig := newRig(t)
				s := rig.open(t, SessionOptions{})
				a := start(t.Context(), s, RunRequest{}, Spin())
				<-a.began
				rig.docker.Lose(s.latest().instance.ID(), sandbox.Ending{Cause: cause, Detail: "the engine went away"})
				r := a.wait(t)
				switch cause {
				case sandbox.MemoryOut, sandbox.ProcessOut, sandbox.DiskOut, sandbox.OutputOut, sandbox.Killed, sandbox.Internal:
					want(t, r, cause, wire.StateLost)
				default:
					want(t, r, sandbox.BackendLost, wire.StateLost)
				}
				if s.State() != StateLost || a.out.stdout.String() != "began\n" {
					t.Errorf("session is %s, output %q", s.State(), a.out.stdout.String())
				}
				again(t, s, "the run before ended with its instance (the engine went away)")
			})
		}
	})
	t.Run("while idle", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			rig := newRig(t)
			s := rig.open(t, SessionOptions{})
			run(t, s, RunRequest{}, Set("x", 1), WriteFile("kept.txt", "still here"))
			rig.docker.Lose(s.latest().instance.ID(), sandbox.Ending{Cause: sandbox.Killed, Detail: "somebody removed it"})
			if s.State() != StateLost {
				t.Errorf("session is %s", s.State())
			}
			if _, err := s.Variables(t.Context()); !errors.Is(err, ErrNoInterpreter) {
				t.Errorf("variables: %v", err)
			}
			again(t, s, "its instance had ended: somebody removed it")
			if _, out := run(t, s, RunRequest{}, ReadFile("kept.txt")); out != "still here\n" {
				t.Errorf("the workspace has %q", out)
			}
			if rig.docker.Instances() != 1 {
				t.Errorf("%d instances", rig.docker.Instances())
			}
		})
	})
	t.Run("after a whole program", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := newRig(t).open(t, SessionOptions{})
			r, _ := run(t, s, RunRequest{Once: true}, Set("x", 1))
			want(t, r, sandbox.OK, wire.StateEnded)
			again(t, s, "a whole program")
		})
	})
}

// again shows that the next run starts in a fresh instance and says so, once.
func again(t *testing.T, s *Session, words string) {
	t.Helper()
	r, out := run(t, s, RunRequest{}, Set("y", 2), Show("y"))
	want(t, r, sandbox.OK, wire.StateLost)
	if out != "2\n" || !strings.Contains(r.Detail, words) {
		t.Errorf("output %q, detail %q, want %q in it", out, r.Detail, words)
	}
	r, out = run(t, s, RunRequest{}, Show("y"))
	want(t, r, sandbox.OK, wire.StateKept)
	if out != "2\n" || r.Detail != "" {
		t.Errorf("output %q, detail %q", out, r.Detail)
	}
}
