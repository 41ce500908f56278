package sandboxtest

import (
	"errors"
	"testing"
	"time"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// ages is longer than any case lasts.
const ages = 10 * time.Minute

func interruptCases() []testCase {
	return []testCase{
		{name: "Sleep", run: caseInterrupt(Sleep(ages))},
		{name: "Spin", run: caseInterrupt(Spin())},
		{name: "BlockedRead", run: caseInterrupt(BlockedRead())},
		{name: "AfterTheEnd", run: caseInterruptAfter},
		{name: "AroundTheEnd", run: caseInterruptRace},
		{name: "AnotherRun", run: caseInterruptOther},
		{name: "Ignored", run: caseInterruptIgnored},
		{name: "Hard", run: caseHard},
	}
}

func (b *box) interrupt(t testing.TB, l *live, level wire.Level, sweep bool) {
	t.Helper()
	if err := b.Interrupt(limited(t), l.id, level, sweep); err != nil {
		t.Fatalf("interrupt %s (%s): %v", l.id, level, err)
	}
}

func caseInterrupt(step Step) func(*testing.T, *suite) {
	return func(t *testing.T, s *suite) {
		b := s.any(t)
		l := b.start(limited(t), t, Program{Set("before", 5), Print("ready"), step, Print("after")})
		l.until(t, "ready\n")
		b.interrupt(t, l, wire.Soft, false)
		o := l.wait()
		if o.err != nil || o.exit.Outcome != wire.OutcomeInterrupted || o.exit.State != wire.StateKept || o.exit.Hard {
			t.Fatalf("exit %+v, %v", o.exit, o.err)
		}
		if string(o.stdout) != "ready\n" {
			t.Errorf("stdout %q", head(o.stdout))
		}
		if o := b.ok(t, Program{Show("before")}); string(o.stdout) != "5\n" {
			t.Errorf("a variable became %q", head(o.stdout))
		}
	}
}

// caseInterruptAfter: an interrupt that comes too late is refused and hits nothing.
func caseInterruptAfter(t *testing.T, s *suite) {
	b := s.any(t)
	for range 100 {
		o := b.ok(t, Program{Print("x")})
		for _, level := range []wire.Level{wire.Soft, wire.Hard} {
			if err := b.Interrupt(limited(t), o.id, level, true); !errors.Is(err, sandbox.ErrNotRunning) {
				t.Fatalf("interrupt of a run that has ended: %v", err)
			}
		}
	}
	b.usable(t)
}

// caseInterruptRace sends the interrupt just when the run ends. Whatever it
// meets, the next run is unharmed.
func caseInterruptRace(t *testing.T, s *suite) {
	b := s.any(t)
	met := make(map[wire.Outcome]int)
	for i := range 60 {
		l := b.start(limited(t), t, Program{Set("race", int64(i))})
		for err := sandbox.ErrNotRunning; err != nil && l.running(); {
			if err = b.Interrupt(limited(t), l.id, wire.Soft, false); err != nil && !errors.Is(err, sandbox.ErrNotRunning) {
				t.Fatalf("interrupt: %v", err)
			}
		}
		o := l.wait()
		if o.err != nil || (o.exit.Outcome != wire.OutcomeOK && o.exit.Outcome != wire.OutcomeInterrupted) {
			t.Fatalf("exit %s, %v", describe(o.exit), o.err)
		}
		met[o.exit.Outcome]++
		if o := b.ok(t, Program{Print("next")}); string(o.stdout) != "next\n" {
			t.Fatalf("the next run printed %q", head(o.stdout))
		}
	}
	t.Logf("met: %v", met)
}

func caseInterruptOther(t *testing.T, s *suite) {
	b := s.any(t)
	l := b.start(limited(t), t, Program{Print("ready"), WaitFile("other-go"), Print("end")})
	l.until(t, "ready\n")
	for _, level := range []wire.Level{wire.Soft, wire.Hard} {
		if err := b.Interrupt(limited(t), "never-there", level, true); !errors.Is(err, sandbox.ErrNotRunning) {
			t.Errorf("interrupt of an unknown run: %v", err)
		}
	}
	b.put(t, "other-go", "")
	if o := l.wait(); o.err != nil || string(o.stdout) != "ready\nend\n" {
		t.Errorf("stdout %q, exit %s, %v", head(o.stdout), describe(o.exit), o.err)
	}
}

func caseInterruptIgnored(t *testing.T, s *suite) {
	b := s.any(t)
	l := b.start(limited(t), t, Program{Set("gone", 1), Deaf()})
	l.until(t, "deaf\n")
	b.interrupt(t, l, wire.Soft, false)
	b.call(t, wire.OpPing, wire.ControlArgs{})
	if !l.running() {
		t.Error("the program did not ignore the interrupt")
	}
	b.checkHard(t, l)
}

func caseHard(t *testing.T, s *suite) {
	b := s.any(t)
	l := b.start(limited(t), t, Program{Set("gone", 1), Print("deaf"), Spin()})
	l.until(t, "deaf\n")
	b.checkHard(t, l)
}

// checkHard ends a run by force: its output is there, its variables are not.
func (b *box) checkHard(t testing.TB, l *live) {
	t.Helper()
	b.interrupt(t, l, wire.Hard, true)
	o := l.wait()
	if o.err != nil || !o.exit.Hard || o.exit.State != wire.StateLost || o.exit.Outcome != wire.OutcomeSignal {
		t.Fatalf("exit %+v, %v", o.exit, o.err)
	}
	if string(o.stdout) != "deaf\n" {
		t.Errorf("stdout %q", head(o.stdout))
	}
	if o := b.run(t, Program{Show("gone")}); o.exit.Exception == nil || o.exit.Exception.Name != "NameError" {
		t.Errorf("a variable outlived its interpreter: %q", head(o.stdout))
	}
	b.usable(t)
}
