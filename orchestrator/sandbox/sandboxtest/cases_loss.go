package sandboxtest

import (
	"testing"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

func lossCases() []testCase {
	return []testCase{
		{name: "DuringARun", run: caseLossDuringRun},
		{name: "WhileIdle", run: caseLossIdle},
		{name: "DuringACall", run: caseLossDuringCall},
	}
}

// caseLossDuringRun: no end was seen, so none is reported.
func caseLossDuringRun(t *testing.T, s *suite) {
	b := s.own(t)
	l := b.start(limited(t), t, Program{Print("ready"), Sleep(ages)})
	l.until(t, "ready\n")
	s.f.Lose(t, b.Instance)
	o := l.wait()
	asLost(t, o.err)
	if string(o.stdout) != "ready\n" {
		t.Errorf("stdout %q", head(o.stdout))
	}
	b.checkLost(t)
}

func caseLossIdle(t *testing.T, s *suite) {
	b := s.own(t)
	b.usable(t)
	s.f.Lose(t, b.Instance)
	b.checkLost(t)
}

func caseLossDuringCall(t *testing.T, s *suite) {
	b := s.own(t)
	in := &endless{}
	failed := make(chan error, 1)
	ctx := limited(t)
	go func() {
		_, err := b.Call(ctx, wire.Control{Op: wire.OpPut, Args: wire.ControlArgs{Path: "endless"}}, in, nil)
		failed <- err
	}()
	await(t, "the transfer to be under way", func() bool { return in.beyond(1 << 20) })
	s.f.Lose(t, b.Instance)
	if err := <-failed; err == nil && !in.beyond(256<<20) {
		t.Error("a call on a lost instance succeeded")
	}
	b.checkLost(t)
}

// checkLost: a lost instance says so everywhere and can still be closed.
func (b *box) checkLost(t testing.TB) {
	t.Helper()
	b.awaitDone(t)
	if e := b.Cause(); e.Cause == "" || e.Cause == sandbox.OK || e.Detail == "" {
		t.Errorf("cause: %+v", e)
	}
	o := b.try(t, Program{Print("x")})
	asLost(t, o.err)
	if _, err := b.Call(limited(t), wire.Control{Op: wire.OpPing}, nil, nil); err == nil {
		t.Error("a call on a lost instance was answered")
	}
	before := b.Cause()
	b.mustClose(t)
	if after := b.Cause(); after != before {
		t.Errorf("closing changed the cause from %+v to %+v", before, after)
	}
}
