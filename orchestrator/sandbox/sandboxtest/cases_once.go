package sandboxtest

import (
	"strings"
	"testing"

	"brig/orchestrator/wire"
)

func onceCases() []testCase {
	return []testCase{
		{name: "WholeProgram", run: caseWholeProgram},
		{name: "Falls off its end", run: caseOnceEnd},
		{name: "Exception", run: caseOnceException},
		{name: "Signal", run: caseOnceSignal},
		{name: "Interrupt", run: caseOnceInterrupt},
	}
}

// caseWholeProgram: a program that ends as Python ends: threads joined, exit
// handlers called, files flushed, the status its own.
func caseWholeProgram(t *testing.T, s *suite) {
	b := s.own(t)
	o := b.run(t, Program{
		AtExit("at exit"), Thread("from the thread"), Unflushed("unflushed.txt", strings.Repeat("x", 1000)), Print("main"), Exit(7),
	}, once())
	wantStatus(t, o, 7)
	if o.exit.State != wire.StateEnded {
		t.Errorf("state %s", o.exit.State)
	}
	if string(o.stdout) != "main\nfrom the thread\nat exit\n" {
		t.Errorf("stdout %q", head(o.stdout))
	}
	if got, err := b.get(t, "unflushed.txt"); err != nil || string(got) != strings.Repeat("x", 1000) {
		t.Errorf("the file holds %q, %v", head(got), err)
	}
	if again := b.try(t, Program{Print("again")}); again.err == nil {
		t.Errorf("a second run after the one program ended %s", describe(again.exit))
	}
}

func caseOnceEnd(t *testing.T, s *suite) {
	o := s.own(t).run(t, Program{Print("x"), AtExit("bye")}, once(), withArgv("one"))
	ok := o.exit.Outcome == wire.OutcomeOK || (o.exit.Outcome == wire.OutcomeExit && o.exit.Status == 0)
	if !ok || o.exit.State != wire.StateEnded || string(o.stdout) != "x\nbye\n" {
		t.Errorf("exit %+v, stdout %q", o.exit, head(o.stdout))
	}
}

func caseOnceException(t *testing.T, s *suite) {
	o := s.own(t).run(t, Program{AtExit("bye"), Raise("ValueError", "no good")}, once())
	if o.exit.Outcome != wire.OutcomeException || o.exit.Exception == nil || o.exit.Exception.Name != "ValueError" {
		t.Errorf("exit %+v", o.exit)
	}
	if o.exit.State != wire.StateEnded || string(o.stdout) != "bye\n" {
		t.Errorf("state %s, stdout %q", o.exit.State, head(o.stdout))
	}
}

func caseOnceSignal(t *testing.T, s *suite) {
	o := s.own(t).run(t, Program{AtExit("bye"), KillSelf(9)}, once())
	if o.exit.Outcome != wire.OutcomeSignal || o.exit.Signal != 9 || o.exit.Hard || o.exit.State != wire.StateEnded || len(o.stdout) != 0 {
		t.Errorf("exit %+v, stdout %q", o.exit, head(o.stdout))
	}
}

func caseOnceInterrupt(t *testing.T, s *suite) {
	b := s.own(t)
	l := b.start(limited(t), t, Program{AtExit("bye"), Print("ready"), Sleep(ages)}, once())
	l.until(t, "ready\n")
	b.interrupt(t, l, wire.Soft, false)
	o := l.wait()
	if o.err != nil || o.exit.Outcome != wire.OutcomeInterrupted || o.exit.State != wire.StateEnded || string(o.stdout) != "ready\nbye\n" {
		t.Errorf("exit %+v, %v, stdout %q", o.exit, o.err, head(o.stdout))
	}
}
