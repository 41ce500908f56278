package sandboxtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"testing"

	"brig/orchestrator/wire"
)

func outputCases() []testCase {
	return []testCase{
		{name: "RandomBytes", run: caseRandomBytes},
		{name: "SplitCharacters", run: caseSplit},
		{name: "EmptyWrites", run: caseEmptyWrites},
		{name: "BeforeItEnds", run: caseLive},
		{name: "Late", run: caseLate},
		{name: "EmitError", run: caseEmitError},
		{name: "ContextEnds", run: caseContextEnds},
	}
}

func boundCases() []testCase {
	return []testCase{
		{name: "WithinBound", run: caseWithinBound},
		{name: "BothStreams", run: caseBothStreams},
		{name: "OneLineOf100MB", run: caseLongLine},
		{name: "SlowEmit", run: caseSlowEmit},
	}
}

func caseRandomBytes(t *testing.T, s *suite) {
	const size = 700_001
	o := s.any(t).ok(t, Program{Write(Stdout, Random, size), Write(Stderr, Random, size)})
	want := sha256.Sum256(Random.Range(0, size))
	for name, got := range map[string][]byte{"stdout": o.stdout, "stderr": o.stderr} {
		if sha256.Sum256(got) != want {
			t.Errorf("%s: %d bytes that differ from the %d written ones", name, len(got), size)
		}
	}
}

func caseSplit(t *testing.T, s *suite) {
	const text = "naïve · 日本語 · \U0001f600 · e\u0301 · \x00\x1b[31m\r\n"
	o := s.any(t).ok(t, Program{Split(Stdout, text), Split(Stderr, text)})
	if string(o.stdout) != text || string(o.stderr) != text {
		t.Errorf("stdout %q, stderr %q, want %q", head(o.stdout), head(o.stderr), text)
	}
}

func caseEmptyWrites(t *testing.T, s *suite) {
	o := s.any(t).ok(t, Program{EmptyWrites(200_000), Print("done")})
	if string(o.stdout) != "done\n" || o.exit.Stdout.Total != 5 {
		t.Errorf("stdout %q, account %+v", head(o.stdout), o.exit.Stdout)
	}
}

// caseLive: output is there while the program runs, without being flushed.
func caseLive(t *testing.T, s *suite) {
	b := s.any(t)
	l := b.start(limited(t), t, Program{Print("early"), WaitFile("live-go"), Print("end")})
	l.until(t, "early\n")
	if !l.running() {
		t.Error("the run ended by itself")
	}
	b.put(t, "live-go", "")
	if o := l.wait(); o.err != nil || string(o.stdout) != "early\nend\n" {
		t.Errorf("stdout %q, %v", head(o.stdout), o.err)
	}
}

// caseLate: what a background child writes after its run has ended still
// belongs to that run and is marked.
func caseLate(t *testing.T, s *suite) {
	b := s.own(t)
	first := b.ok(t, Program{Late(Stdout, "too late", "late-out"), Late(Stderr, "late too", "late-err"), Print("end")})
	if string(first.stdout) != "end\n" {
		t.Errorf("stdout %q", head(first.stdout))
	}
	for _, name := range []string{"late-out", "late-err"} {
		b.put(t, name, "")
		b.awaitFile(t, name+".done")
	}
	second := b.ok(t, Program{Print("second")})
	if string(second.stdout) != "second\n" || len(second.stderr) != 0 {
		t.Errorf("late output counts as the next run's: stdout %q, stderr %q", head(second.stdout), head(second.stderr))
	}
	if got := second.lateText(first.id, wire.EventStdout); got != "too late" {
		t.Errorf("late stdout of %s is %q: %+v", first.id, got, second.late)
	}
	if got := second.lateText(first.id, wire.EventStderr); got != "late too" {
		t.Errorf("late stderr of %s is %q: %+v", first.id, got, second.late)
	}
}

var errStop = errors.New("the reader wants no more")

func caseEmitError(t *testing.T, s *suite) {
	b := s.any(t)
	p := Program{Print("x"), Spin()}
	_, err := b.Run(limited(t), p.Run(b.nextID()), func(wire.Event) error { return errStop })
	if !errors.Is(err, errStop) {
		t.Errorf("run returned %v", err)
	}
	b.usable(t)
}

func caseContextEnds(t *testing.T, s *suite) {
	b := s.any(t)
	ctx, cancel := context.WithCancel(limited(t))
	defer cancel()
	l := b.start(ctx, t, Program{Print("x"), Spin()})
	l.until(t, "x\n")
	cancel()
	if o := l.wait(); !errors.Is(o.err, context.Canceled) {
		t.Errorf("run returned %v", o.err)
	}
	b.usable(t)
}

func caseWithinBound(t *testing.T, s *suite) {
	kept := s.f.Base.Limits.WithDefaults().OutputKept
	o := s.any(t).ok(t, Program{Write(Stdout, Numbered, kept)})
	if o.exit.Stdout != (wire.Count{Total: kept, Kept: kept}) || o.exit.Log != nil || len(o.gaps) != 0 {
		t.Errorf("account %+v, log %+v, gaps %+v", o.exit.Stdout, o.exit.Log, o.gaps)
	}
	if !bytes.Equal(o.stdout, Numbered.Range(0, kept)) {
		t.Errorf("%d bytes that differ from the %d written ones", len(o.stdout), kept)
	}
}

func caseBothStreams(t *testing.T, s *suite) {
	const out, err = 3 << 20, 5<<20 + 17
	b := s.any(t)
	o := b.ok(t, Program{Write(Stdout, Numbered, out), Write(Stderr, Random, err)})
	o.checkBounded(t, s, wire.StreamStdout, Numbered, out)
	o.checkBounded(t, s, wire.StreamStderr, Random, err)
	if o.exit.Log == nil || o.exit.Log.Bytes+o.exit.Log.Dropped != out+err {
		t.Errorf("log: %+v, want an account of %d bytes", o.exit.Log, out+err)
	}
	b.dropLog(t, o)
}

func caseLongLine(t *testing.T, s *suite) {
	const size = 100 << 20
	b := s.any(t)
	o := b.ok(t, Program{Write(Stdout, Numbered, size)})
	o.checkBounded(t, s, wire.StreamStdout, Numbered, size)
	log := o.exit.Log
	if log == nil {
		t.Fatal("no log although output was dropped")
	}
	defer b.dropLog(t, o)
	limit := s.f.Base.Limits.WithDefaults().OutputLogged
	if log.Bytes > limit || log.Bytes+log.Dropped != size {
		t.Errorf("log %+v, want at most %d bytes and an account of %d", log, limit, size)
	}
	got, want := sha256.New(), sha256.New()
	if _, err := io.Copy(want, Numbered.Reader(log.Bytes)); err != nil {
		t.Fatal(err)
	}
	args := wire.ControlArgs{Path: log.Path}
	if _, err := b.Call(limited(t), wire.Control{Op: wire.OpGet, Args: args}, nil, got); err != nil {
		t.Fatalf("get the log: %v", err)
	}
	if !bytes.Equal(got.Sum(nil), want.Sum(nil)) {
		t.Errorf("the log %s is not the first %d bytes of the output", log.Path, log.Bytes)
	}
}

// dropLog removes the log file of a run, so that it does not count against the next case.
func (b *box) dropLog(t testing.TB, o *outcome) {
	t.Helper()
	if o.exit.Log != nil {
		b.call(t, wire.OpRemove, wire.ControlArgs{Path: o.exit.Log.Path})
	}
}

// checkBounded checks the exact account of one stream that was larger than the
// bound: head and tail are the right bytes, one gap stands between them.
func (o *outcome) checkBounded(t testing.TB, s *suite, stream uint32, fill Fill, size int64) {
	t.Helper()
	got, count := o.stdout, o.exit.Stdout
	if stream == wire.StreamStderr {
		got, count = o.stderr, o.exit.Stderr
	}
	limit := s.f.Base.Limits.WithDefaults().OutputKept
	if count.Total != size || count.Kept > limit || count.Kept < limit/2 || count.Total != count.Kept+count.Dropped {
		t.Errorf("stream %d: account %+v of %d bytes with a bound of %d", stream, count, size, limit)
	}
	if int64(len(got)) != count.Kept || o.dropped(stream, false) != count.Dropped || o.dropped(stream, true) != 0 {
		t.Fatalf("stream %d: %d bytes and gaps of %d and %d, account %+v", stream, len(got), o.dropped(stream, false),
			o.dropped(stream, true), count)
	}
	at := -1
	for _, g := range o.gaps {
		if g.Stream == stream {
			if at >= 0 {
				t.Errorf("stream %d has more than one gap", stream)
			}
			at = g.at
		}
	}
	if at <= 0 || at >= len(got) {
		t.Fatalf("stream %d: the gap stands at %d of %d", stream, at, len(got))
	}
	tail := int64(len(got) - at)
	if !bytes.Equal(got[:at], fill.Range(0, int64(at))) || !bytes.Equal(got[at:], fill.Range(size-tail, tail)) {
		t.Errorf("stream %d: head or tail are not the written bytes", stream)
	}
}

// caseSlowEmit: nobody takes the events, and the program still comes to its
// end; what had to be dropped is counted.
func caseSlowEmit(t *testing.T, s *suite) {
	base := s.f.Base
	base.Limits.OutputKept = 48 << 20
	const size = 40 << 20 // the head alone, 24 MiB, is more than brig buffers
	b := s.ownWith(t, base)

	release := make(chan struct{})
	var received, dropped int64
	id := b.nextID()
	var exit wire.Exit
	var err error
	done := make(chan struct{})
	ctx := limited(t)
	go func() {
		defer close(done)
		p := Program{Write(Stdout, Numbered, size), WriteFile("slow-end", "")}
		exit, err = b.Run(ctx, p.Run(id), func(e wire.Event) error {
			<-release
			switch {
			case e.Kind == wire.EventStdout:
				received += int64(len(e.Data))
			case e.Kind == wire.EventGap && e.Slow && e.Stream == wire.StreamStdout:
				dropped += e.Dropped
			}
			return nil
		})
	}()
	b.awaitFile(t, "slow-end")
	close(release)
	<-done
	if err != nil || exit.Outcome != wire.OutcomeOK {
		t.Fatalf("ended %s, %v", describe(exit), err)
	}
	if exit.Stdout.Kept != size || received+dropped != size || dropped == 0 {
		t.Errorf("received %d and dropped %d of %d, account %+v", received, dropped, size, exit.Stdout)
	}
}
