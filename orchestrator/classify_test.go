package orchestrator

import (
	"errors"
	"strings"
	"testing"
	"time"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

func TestClassify(t *testing.T) {
	limits := sandbox.DefaultLimits()
	ok := wire.Exit{Outcome: wire.OutcomeOK}
	status := func(n int) wire.Exit { return wire.Exit{Outcome: wire.OutcomeExit, Status: n} }
	signal := func(n int) wire.Exit { return wire.Exit{Outcome: wire.OutcomeSignal, Signal: n} }
	raised := func(name, message string) wire.Exit {
		return wire.Exit{Outcome: wire.OutcomeException, Exception: &wire.Exception{Name: name, Message: message}}
	}
	oom := func(e wire.Exit, kills int) wire.Exit { e.OOMKills = kills; return e }
	hard := func(e wire.Exit) wire.Exit { e.Hard = true; return e }
	held := func(e wire.Exit) wire.Exit { e.MemoryHeld = true; return e }
	seen := evidence{Seen: true}
	stopped := func(s stop) evidence { return evidence{Stop: s, Seen: true, Delivered: true, Limit: 30 * time.Second} }
	lost := func(c sandbox.Cause, detail string) evidence {
		return evidence{Ending: sandbox.Ending{Cause: c, Detail: detail}}
	}
	unseen := func(s stop) evidence { return evidence{Stop: s, Limit: 30 * time.Second} }
	cancelled := stopped(stopCancel)
	cancelled.Why = "the caller went away"

	rows := []struct {
		name     string
		exit     wire.Exit
		ev       evidence
		cause    sandbox.Cause
		reported bool
		detail   string // contained in the detail; "-": it is empty
	}{
		// The runner's word.
		{"ok", ok, seen, sandbox.OK, true, "-"},
		{"ok after a child was killed", oom(ok, 2), seen, sandbox.OK, true, "killed 2 processes at the memory limit of 1 GiB"},
		{"sys.exit(0)", status(0), seen, sandbox.OK, true, "-"},
		{"sys.exit(1)", status(1), seen, sandbox.Exit, true, "status 1"},
		{"a program that exits 137 by itself", status(137), seen, sandbox.Exit, true, "status 137"},
		{"a program that exits 255 by itself", status(255), seen, sandbox.Exit, true, "status 255"},
		{"exit after the kernel killed", oom(status(1), 1), seen, sandbox.MemoryOut, true, "killed a process"},
		{"segmentation fault", signal(11), seen, sandbox.Killed, true, "SIGSEGV (11)"},
		{"a signal without a name", signal(63), seen, sandbox.Killed, true, "signal 63"},
		{"killed by nobody known", signal(9), seen, sandbox.Killed, true, "SIGKILL (9)"},
		{"killed by the kernel for memory", oom(signal(9), 1), seen, sandbox.MemoryOut, true, "memory limit of 1 GiB"},
		{"killed for its displays", wire.Exit{Outcome: wire.OutcomeSignal, Signal: 9, Exceeded: wire.ExceededDisplays}, seen, sandbox.OutputOut, true, "more displays than the 10000"},
		{"killed by its runner at the limit", wire.Exit{Outcome: wire.OutcomeSignal, Signal: 9, Hard: true, Exceeded: wire.ExceededTime}, seen, sandbox.Timeout, true, "brig was not heard"},
		{"exception", raised("ValueError", "no"), seen, sandbox.Exception, true, "-"},
		{"exception without an account of it", wire.Exit{Outcome: wire.OutcomeException}, seen, sandbox.Exception, true, "-"},
		{"MemoryError stays an exception", raised("MemoryError", ""), seen, sandbox.Exception, true, "the memory limit is 1 GiB"},
		{"another exception at the memory limit", held(raised("numpy.ArrayMemoryError", "")), seen, sandbox.Exception, true, "memory limit"},
		{"a broken pool", oom(raised("BrokenProcessPool", "died"), 1), seen, sandbox.Exception, true, "killed a process"},
		{"no more processes", raised("BlockingIOError", "[Errno 11] Resource temporarily unavailable"), seen, sandbox.Exception, true, "256 processes and threads"},
		{"no more threads", raised("RuntimeError", "can't start new thread"), seen, sandbox.Exception, true, "256 processes and threads"},
		{"another runtime error", raised("RuntimeError", "no"), seen, sandbox.Exception, true, "-"},
		{"disk full", raised("OSError", "[Errno 28] No space left on device"), seen, sandbox.Exception, true, "workspace may hold 2 GiB"},
		{"file too large", raised("OSError", "[Errno 27] File too large"), seen, sandbox.Exception, true, "file may hold 1 GiB"},
		{"too many files", raised("OSError", "[Errno 24] Too many open files"), seen, sandbox.Exception, true, "1024 files"},
		{"KeyboardInterrupt of its own", wire.Exit{Outcome: wire.OutcomeInterrupted}, seen, sandbox.Exception, true, "not by brig"},
		{"an outcome nobody knows", wire.Exit{Outcome: "fine"}, seen, sandbox.Internal, false, "unknown outcome"},

		// What brig ended.
		{"timeout, interrupted", wire.Exit{Outcome: wire.OutcomeInterrupted}, stopped(stopTimeout), sandbox.Timeout, false, "limit of 30s"},
		{"timeout, caught and ended well", ok, stopped(stopTimeout), sandbox.Timeout, false, "limit of 30s"},
		{"timeout, exit of its own", status(3), stopped(stopTimeout), sandbox.Timeout, false, ""},
		{"timeout by force", hard(signal(9)), stopped(stopTimeout), sandbox.Timeout, false, "by force"},
		{"timeout while the kernel kills", oom(signal(9), 1), stopped(stopTimeout), sandbox.Timeout, false, ""},
		{"timeout, silent runner", wire.Exit{}, unseen(stopTimeout), sandbox.Timeout, false, "did not answer"},
		{"interrupt", wire.Exit{Outcome: wire.OutcomeInterrupted}, stopped(stopInterrupt), sandbox.Interrupted, false, "-"},
		{"interrupt, caught", ok, stopped(stopInterrupt), sandbox.Interrupted, false, ""},
		{"interrupt by force", hard(signal(9)), stopped(stopInterrupt), sandbox.Interrupted, false, "by force"},
		{"interrupt that came too late", ok, evidence{Stop: stopInterrupt, Seen: true}, sandbox.OK, true, "-"},
		{"interrupt that came too late for an exit", status(4), evidence{Stop: stopInterrupt, Seen: true}, sandbox.Exit, true, "status 4"},
		{"interrupt whose own answer is late", wire.Exit{Outcome: wire.OutcomeInterrupted}, evidence{Stop: stopInterrupt, Seen: true}, sandbox.Interrupted, false, "-"},
		{"interrupt, silent runner", wire.Exit{}, unseen(stopInterrupt), sandbox.Interrupted, false, "did not answer"},
		{"cancelled", hard(signal(9)), cancelled, sandbox.Cancelled, false, "the caller went away"},
		{"emit failed", ok, evidence{Stop: stopEmit, Seen: true, Why: "broken pipe"}, sandbox.Cancelled, false, "broken pipe"},
		{"flood", hard(signal(9)), stopped(stopOutput), sandbox.OutputOut, false, "1 MiB"},
		{"closed", wire.Exit{}, unseen(stopClose), sandbox.Cancelled, false, "session was closed"},

		// No end was seen.
		{"lost to the engine", wire.Exit{}, lost(sandbox.BackendLost, "the engine went away"), sandbox.BackendLost, false, "engine went away"},
		{"lost to memory", wire.Exit{}, lost(sandbox.MemoryOut, "the whole container"), sandbox.MemoryOut, false, "whole container"},
		{"lost to a signal", wire.Exit{}, lost(sandbox.Killed, "somebody"), sandbox.Killed, false, "somebody"},
		{"the instance ended well", ok, lost(sandbox.OK, ""), sandbox.BackendLost, false, "before the run did"},
		{"the instance exited", status(0), lost(sandbox.Exit, "status 0"), sandbox.BackendLost, false, "status 0"},
		{"no ending at all", wire.Exit{}, evidence{}, sandbox.BackendLost, false, "before the run did"},
		{"a fault of ours", wire.Exit{}, evidence{Fault: errors.New("two runs at once")}, sandbox.Internal, false, "two runs"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			row.ev.Limits = limits
			v := classify(row.exit, row.ev)
			if v.Cause != row.cause {
				t.Errorf("cause %s, want %s", v.Cause, row.cause)
			}
			if v.RunnerReported != row.reported {
				t.Errorf("runner-reported %v, want %v", v.RunnerReported, row.reported)
			}
			if row.detail == "-" && (v.Detail != "" && v.Detail != "it was interrupted") || row.detail != "-" && !strings.Contains(v.Detail, row.detail) {
				t.Errorf("detail %q, want %q in it", v.Detail, row.detail)
			}
		})
	}
}

// TestLostIsNeverOK goes through everything that a lost run can bring along.
func TestLostIsNeverOK(t *testing.T) {
	outcomes := []wire.Outcome{"", wire.OutcomeOK, wire.OutcomeException, wire.OutcomeExit, wire.OutcomeSignal, wire.OutcomeInterrupted}
	for _, ending := range append(sandbox.Causes(), "", "nonsense") {
		for _, outcome := range outcomes {
			v := classify(wire.Exit{Outcome: outcome}, evidence{Ending: sandbox.Ending{Cause: ending}})
			switch v.Cause {
			case sandbox.OK, sandbox.Exception, sandbox.Exit, sandbox.Timeout, sandbox.Interrupted:
				t.Errorf("ending %q, outcome %q: %s", ending, outcome, v.Cause)
			}
			if v.RunnerReported {
				t.Errorf("ending %q, outcome %q: runner-reported", ending, outcome)
			}
		}
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0 bytes", 1023: "1023 bytes", 1024: "1 KiB", 1536: "1.5 KiB", 1 << 20: "1 MiB", 3 << 29: "1.5 GiB", 5 << 40: "5 TiB"} {
		if got := size(n); got != want {
			t.Errorf("size(%d) = %q, want %q", n, got, want)
		}
	}
}
