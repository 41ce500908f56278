package sandboxtest

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// outcome is everything that was seen of one run.
type outcome struct {
	id       wire.RunID
	exit     wire.Exit
	err      error
	stdout   []byte
	stderr   []byte
	late     []lateOutput
	gaps     []gapAt
	displays []wire.Display
}

// gapAt is a gap and how much of its stream had arrived before it.
type gapAt struct {
	wire.Event
	at int
}

// lateOutput is output of an earlier run.
type lateOutput struct {
	run  wire.RunID
	kind wire.EventKind
	text string
}

// lateText joins the late output of one run.
func (o *outcome) lateText(run wire.RunID, kind wire.EventKind) string {
	var out strings.Builder
	for _, l := range o.late {
		if l.run == run && l.kind == kind {
			out.WriteString(l.text)
		}
	}
	return out.String()
}

// dropped sums the gaps of one stream.
func (o *outcome) dropped(stream uint32, slow bool) int64 {
	var n int64
	for _, g := range o.gaps {
		if g.Stream == stream && g.Slow == slow {
			n += g.Dropped
		}
	}
	return n
}

// request changes the wire.Run of a case.
type request func(*wire.Run)

func withArgv(argv ...string) request  { return func(r *wire.Run) { r.Argv = argv } }
func withFilename(name string) request { return func(r *wire.Run) { r.Filename = name } }
func once() request                    { return func(r *wire.Run) { r.Once = true } }
func withSource(f func([]byte) []byte) request {
	return func(r *wire.Run) { r.Source = f(r.Source) }
}

// live is a run under way.
type live struct {
	id   wire.RunID
	done chan struct{}

	mu   sync.Mutex
	cond *sync.Cond
	out  outcome
	over bool
}

// start begins a run on a goroutine of its own, which ends before the test does.
func (b *box) start(ctx context.Context, t testing.TB, p Program, options ...request) *live {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	req := p.Run(b.nextID())
	for _, o := range options {
		o(&req)
	}
	l := &live{id: req.ID, done: make(chan struct{})}
	l.cond = sync.NewCond(&l.mu)
	l.out.id = req.ID
	go func() {
		defer close(l.done)
		exit, err := b.Run(ctx, req, l.emit)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.out.exit, l.out.err, l.over = exit, err, true
		l.cond.Broadcast()
	}()
	t.Cleanup(func() {
		cancel()
		<-l.done
	})
	return l
}

// emit collects one event; it copies what is only valid during the call.
func (l *live) emit(e wire.Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.cond.Broadcast()
	switch {
	case e.Kind == wire.EventGap:
		at := len(l.out.stdout)
		if e.Stream == wire.StreamStderr {
			at = len(l.out.stderr)
		}
		l.out.gaps = append(l.out.gaps, gapAt{Event: e, at: at})
	case e.Kind == wire.EventDisplay:
		d := wire.Display{Role: e.Display.Role}
		for _, p := range e.Display.Data {
			d.Data = append(d.Data, wire.Part{MIME: p.MIME, Data: bytes.Clone(p.Data)})
		}
		l.out.displays = append(l.out.displays, d)
	case e.Late || e.Run != l.id:
		l.out.late = append(l.out.late, lateOutput{run: e.Run, kind: e.Kind, text: string(e.Data)})
	case e.Kind == wire.EventStdout:
		l.out.stdout = append(l.out.stdout, e.Data...)
	case e.Kind == wire.EventStderr:
		l.out.stderr = append(l.out.stderr, e.Data...)
	}
	return nil
}

// until waits for text on standard output; it fails the test if the run ends first.
func (l *live) until(t testing.TB, text string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for !bytes.Contains(l.out.stdout, []byte(text)) {
		if l.over {
			t.Fatalf("the run ended before %q appeared: %+v, %v; stderr %q", text, l.out.exit, l.out.err, head(l.out.stderr))
		}
		l.cond.Wait()
	}
}

// wait returns what was seen when the run has ended.
func (l *live) wait() *outcome {
	<-l.done
	return &l.out
}

// running tells whether the run has not ended yet.
func (l *live) running() bool {
	select {
	case <-l.done:
		return false
	default:
		return true
	}
}

// try runs a program and returns whatever came of it.
func (b *box) try(t testing.TB, p Program, options ...request) *outcome {
	t.Helper()
	return b.start(limited(t), t, p, options...).wait()
}

// run runs a program of which an end must be seen, whatever it is.
func (b *box) run(t testing.TB, p Program, options ...request) *outcome {
	t.Helper()
	o := b.try(t, p, options...)
	if o.err != nil {
		t.Fatalf("run %s: %v", o.id, o.err)
	}
	if o.exit.Run != o.id {
		t.Fatalf("the exit of run %s names run %s", o.id, o.exit.Run)
	}
	return o
}

// ok runs a program that must succeed.
func (b *box) ok(t testing.TB, p Program, options ...request) *outcome {
	t.Helper()
	o := b.run(t, p, options...)
	if o.exit.Outcome != wire.OutcomeOK {
		t.Fatalf("run %s ended %s; stdout %q, stderr %q", o.id, describe(o.exit), head(o.stdout), head(o.stderr))
	}
	return o
}

// usable proves that the instance still takes code.
func (b *box) usable(t testing.TB) {
	t.Helper()
	if o := b.ok(t, Program{Print("still here")}); string(o.stdout) != "still here\n" {
		t.Fatalf("the next run printed %q", head(o.stdout))
	}
}

// call asks and expects an answer.
func (b *box) call(t testing.TB, op wire.Op, args wire.ControlArgs) wire.Reply {
	t.Helper()
	r, err := b.Call(limited(t), wire.Control{Op: op, Args: args}, nil, nil)
	if err != nil {
		t.Fatalf("call %s: %v", op, err)
	}
	return r
}

// put writes a workspace file through the instance.
func (b *box) put(t testing.TB, path, text string) {
	t.Helper()
	_, err := b.Call(limited(t), wire.Control{Op: wire.OpPut, Args: wire.ControlArgs{Path: path}}, strings.NewReader(text), nil)
	if err != nil {
		t.Fatalf("put %s: %v", path, err)
	}
}

// get reads a workspace file through the instance.
func (b *box) get(t testing.TB, path string) ([]byte, error) {
	t.Helper()
	var out bytes.Buffer
	_, err := b.Call(limited(t), wire.Control{Op: wire.OpGet, Args: wire.ControlArgs{Path: path}}, nil, &out)
	return out.Bytes(), err
}

// describe is an exit for messages.
func describe(e wire.Exit) string {
	text := string(e.Outcome)
	if e.Exception != nil {
		text += " " + e.Exception.Traceback
	}
	return text
}

// head shortens hostile or large output for messages.
func head(b []byte) []byte { return b[:min(len(b), 500)] }

// added is what after holds and before does not.
func added(before, after []Process) []Process {
	var out []Process
	for _, p := range after {
		if !slices.ContainsFunc(before, func(q Process) bool { return q.ID == p.ID }) {
			out = append(out, p)
		}
	}
	return out
}

var _ sandbox.Instance = (*box)(nil)
