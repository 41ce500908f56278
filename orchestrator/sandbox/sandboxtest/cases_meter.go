package sandboxtest

import (
	"strings"
	"testing"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// meterCases are about counters that are read from outside of an instance.
func meterCases() []testCase {
	return []testCase{
		{name: "OOMKill", run: caseCountersOOM},
		{name: "AfterTheEnd", run: caseCountersAfterEnd},
	}
}

// meter is b as a Meter, nil where it is none here; then the log says so.
func (b *box) meter(t *testing.T) sandbox.Meter {
	t.Helper()
	m, ok := b.Instance.(sandbox.Meter)
	if !ok {
		t.Logf("left out: a %T cannot be read from outside", b.Instance)
		return nil
	}
	if _, ok := m.Counters(); !ok {
		t.Log("left out: the counters of an instance cannot be read on this machine")
		return nil
	}
	return m
}

// counters reads them; what could be read once can be read again.
func counters(t testing.TB, m sandbox.Meter) sandbox.Counters {
	t.Helper()
	c, ok := m.Counters()
	if !ok {
		t.Fatal("the counters cannot be read any more")
	}
	if c.Source == "" || c.OOMKills < 0 || c.ForkFailures < -1 {
		t.Errorf("counters: %+v", c)
	}
	return c
}

// caseCountersOOM: a child that dies of the memory limit is seen from outside,
// also where the program itself goes on.
func caseCountersOOM(t *testing.T, s *suite) {
	const limit = 256 << 20
	base := s.f.Base
	base.Limits.Memory = limit
	b := s.ownWith(t, base)
	m := b.meter(t)
	if m == nil {
		return
	}
	last := counters(t, m)
	step := func(what string, p Program) *outcome {
		t.Helper()
		o := b.try(t, p)
		if o.err != nil {
			return o
		}
		now := counters(t, m)
		if now.OOMKills < last.OOMKills || now.ForkFailures < last.ForkFailures {
			t.Errorf("%s: the counters shrank from %+v to %+v", what, last, now)
		}
		last = now
		return o
	}
	step("a run", Program{Print("x")})
	if last.OOMKills != 0 {
		t.Errorf("before anything was killed: %+v", last)
	}
	if l := b.Posture().Layer(sandbox.MemoryLimit); l.State != sandbox.Enforced {
		t.Logf("left out: memory-limit is %s (%s)", l.State, l.Reason)
		return
	}
	o := step("an OOM kill", Program{HogChild(2 * limit)})
	if o.err != nil {
		// Some kernels end the whole instance; then that is the evidence.
		if lost := asLost(t, o.err); lost.Ending.Cause != sandbox.MemoryOut {
			t.Errorf("lost: %+v", lost)
		}
		return
	}
	if !strings.Contains(string(o.stdout), "killed by signal 9") || o.exit.Outcome != wire.OutcomeOK {
		t.Fatalf("the child was not killed: %s, stdout %q", describe(o.exit), head(o.stdout))
	}
	if last.OOMKills < 1 {
		t.Errorf("after an OOM kill: %+v", last)
	}
	step("the next run", Program{Print("x")})
	b.call(t, wire.OpReset, wire.ControlArgs{})
	step("a reset", Program{Print("x")})
}

// caseCountersAfterEnd: asking a dead instance is no accident.
func caseCountersAfterEnd(t *testing.T, s *suite) {
	b := s.own(t)
	m := b.meter(t)
	if m == nil {
		return
	}
	before := counters(t, m)
	b.mustClose(t)
	if c, ok := m.Counters(); ok && c.OOMKills < before.OOMKills {
		t.Errorf("the counters shrank from %+v to %+v", before, c)
	}
}
