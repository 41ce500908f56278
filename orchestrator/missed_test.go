package orchestrator

import (
	"strings"
	"testing"

	"brig/orchestrator/sandbox"
	. "brig/orchestrator/sandbox/sandboxtest"
	"brig/orchestrator/wire"
)

// Whatever cost a session its variables, the run that did says so, and so does the
// next one, once.
func TestLostVariablesAreTold(t *testing.T) {
	const gone, earlier = "the session's variables are gone", "earlier variables are gone: "
	for name, c := range map[string]struct {
		req  RunRequest
		step Step
		told bool
	}{
		"nothing":      {RunRequest{}, Print("hi"), false},
		"an exception": {RunRequest{}, Raise("ValueError", "no"), false},
		"an exit":      {RunRequest{}, HardExit(3), true},
		"a signal":     {RunRequest{}, KillSelf(9), true},
		"a timeout":    {RunRequest{Timeout: 50_000_000}, Deaf(), true},
		"a program":    {RunRequest{Once: true}, Print("hi"), true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRig(t).open(t, SessionOptions{})
			run(t, s, RunRequest{}, Set("x", 1))
			r, _ := run(t, s, c.req, c.step)
			if strings.Contains(r.Detail, gone) != c.told || (r.State != wire.StateKept) != c.told {
				t.Errorf("%+v", r)
			}
			next, _ := run(t, s, RunRequest{}, Show("x"))
			if strings.Contains(next.Detail, earlier) != c.told || strings.Contains(next.Detail, gone) {
				t.Errorf("the next: %+v", next)
			}
			if third, _ := run(t, s, RunRequest{}, Print("hi")); strings.Contains(third.Detail, "variables are gone") {
				t.Errorf("the third: %+v", third)
			}
		})
	}
}

// A program on its own has no variables that anybody would miss, and whoever asks for
// a fresh namespace is not told that the earlier one is gone.
func TestLostVariablesThatNobodyMisses(t *testing.T) {
	s := newRig(t).open(t, SessionOptions{})
	if r, _ := run(t, s, RunRequest{Once: true}, Print("hi")); r.Detail != "" {
		t.Errorf("%+v", r)
	}
	s = newRig(t).open(t, SessionOptions{Passing: true})
	if r, _ := run(t, s, RunRequest{}, HardExit(3)); strings.Contains(r.Detail, "variables") || r.Cause != sandbox.Exit {
		t.Errorf("%+v", r)
	}
	s = newRig(t).open(t, SessionOptions{})
	run(t, s, RunRequest{}, HardExit(3))
	if err := s.Reset(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if r, _ := run(t, s, RunRequest{}, Print("hi")); r.Detail != "" || r.State != wire.StateKept {
		t.Errorf("%+v", r)
	}
}

// Reset that is not to wait interrupts what runs, and one for which the settings
// allow no instance like the present one starts another.
func TestResetNow(t *testing.T) {
	r := newRig(t)
	s := r.open(t, SessionOptions{Name: "x"})
	a := start(t.Context(), s, RunRequest{}, Spin())
	<-a.began
	if err := s.Reset(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if got := a.wait(t); got.Cause != sandbox.Interrupted {
		t.Errorf("%+v", got)
	}
	conf := r.options.Config
	conf.Execution.Backend = sandbox.Host
	if err := r.Reconfigure(conf); err != nil {
		t.Fatal(err)
	}
	if err := s.Reset(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if got, _ := run(t, s, RunRequest{}, Print("hi")); got.Cause != sandbox.OK || got.Stamp.Backend != sandbox.Host {
		t.Errorf("%+v", got)
	}
}
