package sandboxtest

import (
	"fmt"
	"strings"
	"testing"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

func endCases() []testCase {
	return []testCase{
		{name: "ExitStatus", run: caseExitStatus},
		{name: "HardExitStatus", run: caseHardExitStatus},
		{name: "ExitText", run: caseExitText},
		{name: "Exit137IsExit", run: caseExit137},
		{name: "OwnSIGKILLIsSignal", run: caseOwnSignal(9)},
		{name: "OwnSIGSEGVIsSignal", run: caseOwnSignal(11)},
		{name: "MemoryLimit", run: caseMemory},
	}
}

// orphanLoad is how many orphans die while an exit status is on its way.
const orphanLoad = 8

func wantStatus(t testing.TB, o *outcome, status int) {
	t.Helper()
	if o.exit.Outcome != wire.OutcomeExit || o.exit.Status != status || o.exit.Signal != 0 {
		t.Errorf("ended %s with status %d and signal %d, want exit %d", describe(o.exit), o.exit.Status, o.exit.Signal, status)
	}
}

// caseExitStatus: every status arrives as it is, each 16th beside orphans whose
// own statuses must not be taken for it.
func caseExitStatus(t *testing.T, s *suite) {
	b := s.any(t)
	for status := range 256 {
		p := Program{Exit(status)}
		if status%16 == 5 {
			p = Program{Orphans(orphanLoad), Exit(status)}
		}
		wantStatus(t, b.run(t, p), status)
	}
	b.usable(t)
}

func caseHardExitStatus(t *testing.T, s *suite) {
	b := s.any(t)
	for _, status := range []int{0, 1, 2, 77, 126, 127, 128, 139, 143, 255} {
		o := b.run(t, Program{Orphans(orphanLoad), HardExit(status)})
		wantStatus(t, o, status)
		if o.exit.State != wire.StateLost || o.exit.Hard {
			t.Errorf("after os._exit(%d): state %s, hard %t", status, o.exit.State, o.exit.Hard)
		}
	}
	b.usable(t)
}

func caseExitText(t *testing.T, s *suite) {
	o := s.any(t).run(t, Program{ExitText("goodbye")})
	wantStatus(t, o, 1)
	if string(o.stderr) != "goodbye\n" {
		t.Errorf("stderr %q", head(o.stderr))
	}
}

// caseExit137: a number that looks like a signal is still the program's own.
func caseExit137(t *testing.T, s *suite) {
	b := s.any(t)
	for _, p := range []Program{{Exit(137)}, {HardExit(137)}} {
		o := b.run(t, p)
		wantStatus(t, o, 137)
		if o.exit.OOMKills != 0 || o.exit.Hard {
			t.Errorf("exit: %+v", o.exit)
		}
	}
	b.usable(t)
}

func caseOwnSignal(signal int) func(*testing.T, *suite) {
	return func(t *testing.T, s *suite) {
		b := s.any(t)
		o := b.run(t, Program{Print("before"), KillSelf(signal), Print("after")})
		if o.exit.Outcome != wire.OutcomeSignal || o.exit.Signal != signal || o.exit.Hard || o.exit.State != wire.StateLost {
			t.Errorf("exit: %+v", o.exit)
		}
		if string(o.stdout) != "before\n" {
			t.Errorf("stdout %q", head(o.stdout))
		}
		b.usable(t)
	}
}

// killsSeen is what a Meter counts from outside: where the kernel inside is another
// than the one that kills, only that one knows.
func killsSeen(m sandbox.Meter) int64 {
	if m == nil {
		return 0
	}
	c, _ := m.Counters()
	return c.OOMKills
}

// caseMemory: where a memory limit is claimed, a program that wants more does not get it.
func caseMemory(t *testing.T, s *suite) {
	const limit = 256 << 20
	base := s.f.Base
	base.Limits.Memory = limit
	b := s.ownWith(t, base)
	layer := b.Posture().Layer(sandbox.MemoryLimit)
	if layer.State != sandbox.Enforced {
		t.Logf("left out: memory-limit is %s (%s)", layer.State, layer.Reason)
		return
	}
	meter, _ := b.Instance.(sandbox.Meter)
	before := killsSeen(meter)
	o := b.try(t, Program{Hog(2 * limit)})
	if strings.Contains(string(o.stdout), "held") {
		t.Fatalf("a program held %d bytes under a limit of %d", 2*limit, limit)
	}
	if o.err != nil {
		// The instance itself may go, but then it says why.
		if lost := asLost(t, o.err); lost.Ending.Cause != sandbox.MemoryOut {
			t.Errorf("lost: %+v", lost)
		}
		return
	}
	raised := o.exit.Outcome == wire.OutcomeException && o.exit.Exception.Name == "MemoryError" && o.exit.MemoryHeld
	killed := o.exit.Outcome == wire.OutcomeSignal && o.exit.Signal == 9 && (o.exit.OOMKills > 0 || killsSeen(meter) > before)
	if !raised && !killed {
		t.Errorf("the evidence for the memory limit is missing: %s", fmt.Sprintf("%+v", o.exit))
	}
	b.usable(t)
}
