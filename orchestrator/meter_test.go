package orchestrator

import (
	"strings"
	"testing"

	"brig/orchestrator/sandbox"
	. "brig/orchestrator/sandbox/sandboxtest"
	"brig/orchestrator/wire"
)

// metered opens a session whose runner says what lie makes of it.
func metered(t *testing.T, o MemoryOptions) (*Session, *Memory) {
	t.Helper()
	o.Kind, o.Layers, o.Promised = sandbox.Docker, EnforcedLayers(), CorePromise()
	docker := NewMemory(o)
	r := newRig(t, func(options *Options) { options.Backends = []sandbox.Backend{docker} })
	return r.open(t, SessionOptions{}), docker
}

// What is read from outside decides; what the runner says about it counts only
// where nobody can look, and is marked then.
func TestMeterOverrulesTheRunner(t *testing.T) {
	claims := func(kills int) func(*wire.Exit) {
		return func(e *wire.Exit) {
			e.Outcome, e.Signal, e.OOMKills, e.State, e.Exception = wire.OutcomeSignal, 9, kills, wire.StateLost, nil
		}
	}
	const limit, forks = "the memory limit of 1 GiB", "the limit is 256 processes and threads"
	for _, c := range []struct {
		name      string
		lie       func(*wire.Exit)
		outside   sandbox.Counters
		unmetered bool
		cause     sandbox.Cause
		reported  bool
		says      string
		saysNot   string
	}{
		{"claims a kill that was none", claims(1), sandbox.Counters{}, false, sandbox.Killed, true, "SIGKILL", limit},
		{"claims none that was", claims(0), sandbox.Counters{OOMKills: 1}, false, sandbox.MemoryOut, false, "killed a process at " + limit, "SIGKILL"},
		{"claims more than were", claims(9), sandbox.Counters{OOMKills: 2}, false, sandbox.MemoryOut, false, "killed 2 processes", "9"},
		{"nobody can look, and it claims one", claims(1), sandbox.Counters{}, true, sandbox.MemoryOut, true, limit, "SIGKILL"},
		{"nobody can look, and it claims none", claims(0), sandbox.Counters{OOMKills: 1}, true, sandbox.Killed, true, "SIGKILL", limit},
		{"an honest end, and a process that was killed", nil, sandbox.Counters{OOMKills: 1}, false, sandbox.OK, true, limit, ""},
		{"an honest end", nil, sandbox.Counters{}, false, sandbox.OK, true, "", limit},
		{"refused processes, and a good end", nil, sandbox.Counters{ForkFailures: 3}, false, sandbox.OK, true, "3 processes or threads were refused: " + forks, limit},
		{
			"a status of its own, and a refused process", func(e *wire.Exit) { e.Outcome, e.Status = wire.OutcomeExit, 1 },
			sandbox.Counters{ForkFailures: 1},
			false, sandbox.Exit, true, "a process or thread was refused: " + forks, "",
		},
		{
			"an exception that only looks like it", raises("BlockingIOError", "[Errno 11] Resource temporarily unavailable"),
			sandbox.Counters{},
			false, sandbox.Exception, true, "", forks,
		},
		{
			"the same where they are not counted", raises("BlockingIOError", "[Errno 11] Resource temporarily unavailable"),
			sandbox.Counters{ForkFailures: -1},
			false, sandbox.Exception, true, forks, "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, docker := metered(t, MemoryOptions{Unmetered: c.unmetered, Lie: c.lie})
			id := s.latest().instance.ID()
			before := sandbox.Counters{OOMKills: 5, ForkFailures: min(c.outside.ForkFailures, 0), Source: "set"}
			docker.SetCounters(id, before)
			a := start(t.Context(), s, RunRequest{}, WaitFile("go"))
			<-a.began
			after := before
			after.OOMKills += c.outside.OOMKills
			if c.outside.ForkFailures > 0 {
				after.ForkFailures = c.outside.ForkFailures
			}
			docker.SetCounters(id, after)
			if _, err := s.Workspace().Put("go", strings.NewReader(""), 0); err != nil {
				t.Fatal(err)
			}
			r := a.wait(t)
			if r.Cause != c.cause || r.RunnerReported != c.reported {
				t.Errorf("cause %s (%s), runner-reported %t", r.Cause, r.Detail, r.RunnerReported)
			}
			if !strings.Contains(r.Detail, c.says) || c.saysNot != "" && strings.Contains(r.Detail, c.saysNot) {
				t.Errorf("it says %q, want %q and not %q", r.Detail, c.says, c.saysNot)
			}
		})
	}
}

func raises(name, message string) func(*wire.Exit) {
	return func(e *wire.Exit) {
		e.Outcome, e.Exception = wire.OutcomeException, &wire.Exception{Name: name, Message: message, Traceback: name + ": " + message}
	}
}
