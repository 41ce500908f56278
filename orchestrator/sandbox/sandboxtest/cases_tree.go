package sandboxtest

import (
	"context"
	"testing"

	"brig/orchestrator/wire"
)

func treeCases() []testCase {
	return []testCase{
		{name: "HolderDoesNotDelayTheEnd", run: caseHolderEnd},
		{name: "HolderAfterHard", run: caseAfterHard(Holder(ages))},
		{name: "ExecutedHolderAfterHard", run: caseAfterHard(HolderExec(ages))},
		{name: "DaemonAfterHard", run: caseAfterHard(Daemon(ages))},
		{name: "HolderSweptAfterSoft", run: caseSweptAfterSoft(Holder(ages))},
		{name: "DaemonSweptAfterSoft", run: caseSweptAfterSoft(Daemon(ages))},
		{name: "AfterContextEnds", run: caseTreeAfterContext},
		{name: "AfterClose", run: caseTreeAfterClose},
		{name: "AfterLoss", run: caseTreeAfterLoss},
	}
}

// spawn runs steps that start processes and then print "ready", and returns
// what an outside observer sees of them. At least one must be there: without
// that control, "none is left" would prove nothing.
func (b *box) spawn(t *testing.T, s *suite, steps ...Step) (*live, []Process) {
	t.Helper()
	b.usable(t)
	before := s.f.Tree(t, b.Instance)
	p := append(Program{}, steps...)
	l := b.start(limited(t), t, append(p, Print("deaf"), Sleep(ages)))
	l.until(t, "deaf\n")
	var spawned []Process
	await(t, "the program's children to be seen from outside", func() bool {
		spawned = added(before, s.f.Tree(t, b.Instance))
		return len(spawned) >= len(steps)
	})
	return l, spawned
}

// caseHolderEnd: a child that keeps the output open does not keep the run open.
func caseHolderEnd(t *testing.T, s *suite) {
	b := s.own(t)
	o := b.ok(t, Program{Holder(ages), HolderExec(ages), Print("end")})
	if string(o.stdout) != "end\n" {
		t.Errorf("stdout %q", head(o.stdout))
	}
	b.usable(t)
}

func caseAfterHard(step Step) func(*testing.T, *suite) {
	return func(t *testing.T, s *suite) {
		b := s.any(t)
		l, spawned := b.spawn(t, s, step)
		b.checkHard(t, l)
		b.awaitGone(t, s, spawned)
	}
}

func caseSweptAfterSoft(step Step) func(*testing.T, *suite) {
	return func(t *testing.T, s *suite) {
		b := s.any(t)
		l, spawned := b.spawn(t, s, step)
		b.interrupt(t, l, wire.Soft, true)
		o := l.wait()
		if o.err != nil || o.exit.Outcome != wire.OutcomeInterrupted || o.exit.State != wire.StateKept || o.exit.Swept < 1 {
			t.Errorf("exit %+v, %v", o.exit, o.err)
		}
		b.awaitGone(t, s, spawned)
		b.usable(t)
	}
}

func caseTreeAfterContext(t *testing.T, s *suite) {
	b := s.any(t)
	b.usable(t)
	before := s.f.Tree(t, b.Instance)
	ctx, cancel := context.WithCancel(limited(t))
	defer cancel()
	l := b.start(ctx, t, Program{Holder(ages), Daemon(ages), Print("ready"), Spin()})
	l.until(t, "ready\n")
	spawned := added(before, s.f.Tree(t, b.Instance))
	if len(spawned) < 2 {
		t.Fatalf("the observer sees %v, want two children", spawned)
	}
	cancel()
	l.wait()
	b.awaitGone(t, s, spawned)
	b.usable(t)
}

func caseTreeAfterClose(t *testing.T, s *suite) {
	b := s.own(t)
	l, _ := b.spawn(t, s, Holder(ages), Daemon(ages))
	all := s.f.Tree(t, b.Instance)
	b.mustClose(t)
	asLost(t, l.wait().err)
	b.awaitGone(t, s, all)
}

// caseTreeAfterLoss: whoever killed the instance, what it started goes with it.
func caseTreeAfterLoss(t *testing.T, s *suite) {
	b := s.own(t)
	l, _ := b.spawn(t, s, Holder(ages), Daemon(ages))
	all := s.f.Tree(t, b.Instance)
	s.f.Lose(t, b.Instance)
	asLost(t, l.wait().err)
	b.mustClose(t)
	b.awaitGone(t, s, all)
}
