package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"
)

func source(lines ...string) []byte { return []byte(strings.Join(lines, "\n") + "\n") }

func TestRun(t *testing.T) {
	p, _ := connect(t, PeerOptions{})
	var got record
	exit, err := p.Run(t.Context(), Run{ID: "r1", Source: source("out a", "err b", "gap 7", "show image/png 9000", "show text/html 0", "out c")}, got.emit)
	if err != nil {
		t.Fatal(err)
	}
	want := "out(r1) \"a\\n\"\nerr(r1) \"b\\n\"\ngap(r1) 1 7 false\n" +
		"display(r1) figure image/png:9000 text/plain:10\ndisplay(r1) figure text/html:0 text/plain:10\nout(r1) \"c\\n\"\n"
	if got.String() != want {
		t.Errorf("events:\n%swant:\n%s", got.String(), want)
	}
	if exit.Outcome != OutcomeOK || exit.Displays != 2 || exit.Stdout != (Count{Total: 11, Kept: 4, Dropped: 7}) {
		t.Errorf("exit %+v", exit)
	}
	if exit, err := p.Run(t.Context(), Run{ID: "r2", Source: source("raise ValueError")}, got.emit); err != nil || exit.Exception.Name != "ValueError" {
		t.Errorf("second run: %+v, %v", exit, err)
	}
	if exit, err := p.Run(t.Context(), Run{ID: "r3", Source: nil}, got.emit); err != nil || exit.Outcome != OutcomeOK {
		t.Errorf("empty run: %+v, %v", exit, err)
	}
	if exit, err := p.Run(t.Context(), Run{ID: "r4", Source: source("# "+strings.Repeat("x", 2<<20), "exit 3")}, got.emit); err != nil || exit.Status != 3 {
		t.Errorf("long source: %+v, %v", exit, err)
	}
	if exit, err := p.Run(t.Context(), Run{ID: "r5", Source: []byte("unread")}, got.emit); err != nil || exit.Outcome != OutcomeOK {
		t.Errorf("source that nobody reads: %+v, %v", exit, err)
	}
}

func TestRunRefused(t *testing.T) {
	p, _ := connect(t, PeerOptions{})
	none := func(Event) error { t.Error("an event of a run that was refused"); return nil }
	ended, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the caller went away")
	cancel(cause)
	if _, err := p.Run(ended, Run{ID: "r1"}, none); !errors.Is(err, cause) {
		t.Errorf("ended context: %v", err)
	}
	for name, r := range map[string]Run{
		"id":     {ID: "a b"},
		"no id":  {},
		"source": {ID: "r1", Source: make([]byte, MaxCode+1)},
		"argv":   {ID: "r1", Argv: []string{strings.Repeat("x", MaxPayload)}},
		"nul":    {ID: "r1", Argv: []string{"a\x00b"}},
	} {
		if _, err := p.Run(t.Context(), r, none); err == nil || p.Err() != nil {
			t.Errorf("%s: %v, connection %v", name, err, p.Err())
		}
	}
	if _, err := p.Run(t.Context(), Run{ID: "r1"}, none); err != nil {
		t.Errorf("control: %v", err)
	}
	if _, err := p.Run(t.Context(), Run{ID: "r1"}, none); err == nil {
		t.Error("the same id was accepted twice")
	}
}

func TestBusyAndInterrupt(t *testing.T) {
	for _, level := range []Level{Soft, Hard} {
		t.Run(string(level), func(t *testing.T) {
			p, _ := connect(t, PeerOptions{})
			if err := p.Interrupt(t.Context(), "r1", level, false); !errors.Is(err, ErrNotRunning) {
				t.Errorf("before: %v", err)
			}
			exit, err := p.Run(t.Context(), Run{ID: "r1", Source: source("out a", "wait")}, func(Event) error {
				if _, err := p.Run(t.Context(), Run{ID: "r2"}, nil); !errors.Is(err, ErrBusy) {
					t.Errorf("second run: %v", err)
				}
				if err := p.Interrupt(t.Context(), "r0", level, false); !errors.Is(err, ErrNotRunning) {
					t.Errorf("other run: %v", err)
				}
				return p.Interrupt(t.Context(), "r1", level, true)
			})
			if err != nil || exit.Outcome == OutcomeOK || exit.Hard != (level == Hard) {
				t.Errorf("exit %+v, %v", exit, err)
			}
			if err := p.Interrupt(t.Context(), "r1", level, false); !errors.Is(err, ErrNotRunning) {
				t.Errorf("after: %v", err)
			}
		})
	}
}

func TestEmitError(t *testing.T) {
	p, _ := connect(t, PeerOptions{})
	broken := errors.New("broken pipe")
	calls := 0
	exit, err := p.Run(t.Context(), Run{ID: "r1", Source: source("out a", "wait")}, func(Event) error { calls++; return broken })
	if !errors.Is(err, broken) || calls != 1 || !exit.Hard || exit.Run != "r1" {
		t.Errorf("%v after %d calls, exit %+v", err, calls, exit)
	}
	if _, err := p.Run(t.Context(), Run{ID: "r2", Source: source("out a")}, (&record{}).emit); err != nil {
		t.Errorf("the next run: %v", err)
	}
}

func TestContextEndsRun(t *testing.T) {
	p, _ := connect(t, PeerOptions{})
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("deadline of the test")
	var got record
	exit, err := p.Run(ctx, Run{ID: "r1", Source: source("out a", "out b", "wait")}, func(e Event) error {
		cancel(cause)
		return got.emit(e)
	})
	if !errors.Is(err, cause) || !exit.Hard {
		t.Errorf("%v, exit %+v", err, exit)
	}
	var all []byte
	for _, e := range got.events {
		all = append(all, e.Data...)
	}
	if string(all) != "a\nb\n" {
		t.Errorf("output before the deadline: %q", all)
	}
}

func TestDeafRunIsLost(t *testing.T) {
	p, _ := connect(t, PeerOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	_, err := p.Run(ctx, Run{ID: "r1", Source: source("out a", "hang")}, func(Event) error { cancel(); return nil })
	var lost *LostError
	if !errors.As(err, &lost) || !errors.Is(err, errNoExit) {
		t.Errorf("run: %v", err)
	}
	<-p.Done()
	if _, err := p.Run(t.Context(), Run{ID: "r2"}, nil); !errors.As(err, &lost) {
		t.Errorf("next run: %v", err)
	}
	if _, err := p.Call(t.Context(), Control{Op: OpPing}, nil, nil); !errors.As(err, &lost) {
		t.Errorf("next call: %v", err)
	}
	if err := p.Interrupt(t.Context(), "r1", Hard, false); !errors.As(err, &lost) {
		t.Errorf("next interrupt: %v", err)
	}
}

func TestCloseDuringRun(t *testing.T) {
	p, _ := connect(t, PeerOptions{})
	_, err := p.Run(t.Context(), Run{ID: "r1", Source: source("out a", "hang")}, func(Event) error { return p.Close() })
	var lost *LostError
	if !errors.As(err, &lost) || !errors.Is(err, ErrClosed) || !errors.Is(p.Err(), ErrClosed) {
		t.Errorf("run: %v, peer: %v", err, p.Err())
	}
	if err := p.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
}

func TestOnce(t *testing.T) {
	p, _ := connect(t, PeerOptions{})
	var got record
	exit, err := p.Run(t.Context(), Run{ID: "r1", Once: true, Source: source("out a", "exit 5")}, got.emit)
	if err != nil || exit.State != StateEnded || exit.Status != 5 || got.String() != "out(r1) \"a\\n\"\n" {
		t.Errorf("%+v, %v, %s", exit, err, got.String())
	}
	var lost *LostError
	if _, err := p.Run(t.Context(), Run{ID: "r2"}, nil); !errors.As(err, &lost) {
		t.Errorf("next run: %v", err)
	}
	<-p.Done()
	if !errors.Is(p.Err(), io.EOF) {
		t.Errorf("peer: %v", p.Err())
	}
}

func TestLateOutput(t *testing.T) {
	p, x := connect(t, PeerOptions{})
	none := func(e Event) error { t.Errorf("event %+v", e); return nil }
	if _, err := p.Run(t.Context(), Run{ID: "r1", Source: source("late one", "late two")}, none); err != nil {
		t.Fatal(err)
	}
	x.wg.Wait() // the runner has written it all
	var got record
	if _, err := p.Run(t.Context(), Run{ID: "r2", Source: source("out a", "late "+strings.Repeat("x", 70<<10))}, got.emit); err != nil {
		t.Fatal(err)
	}
	if want := "late out(r1) \"one\\ntwo\\n\"\nout(r2) \"a\\n\"\n"; got.String() != want {
		t.Errorf("got %swant %s", got.String(), want)
	}
	x.wg.Wait()
	if _, err := p.Call(t.Context(), Control{Op: OpPing}, nil, nil); err != nil { // everything before it has been read
		t.Fatal(err)
	}
	late := p.TakeLate()
	if len(late) != 2 || len(late[0].Data) != maxLate || !late[0].Late || late[0].Run != "r2" ||
		late[1].Kind != EventGap || late[1].Dropped != 70<<10+1-maxLate || late[1].Stream != StreamStdout {
		t.Errorf("late: %s", (&record{late}).String()[:100])
	}
	if len(p.TakeLate()) != 0 {
		t.Error("late output was returned twice")
	}
}

func TestSlowEmitLosesOutputNotTime(t *testing.T) {
	p, x := connect(t, PeerOptions{RingBytes: 256 << 10})
	const total = 8 << 20
	var kept, dropped, gaps int64
	first := true
	exit, err := p.Run(t.Context(), Run{ID: "r1", Source: source(fmt.Sprintf("flood %d", total), "show image/png 300000", "out end")}, func(e Event) error {
		if first {
			first = false
			x.wg.Wait() // the runner has finished long before the first event was taken
		}
		kept += int64(len(e.Data))
		if e.Kind == EventGap {
			if !e.Slow || e.Stream != StreamStdout {
				t.Errorf("gap %+v", e)
			}
			dropped += e.Dropped
			gaps++
		}
		return nil
	})
	if err != nil || exit.Stdout.Total != total+4 || kept+dropped != total+4 || gaps != 1 || dropped == 0 {
		t.Errorf("%v: kept %d, dropped %d in %d gaps", err, kept, dropped, gaps)
	}
}

// TestPingPasses: whether the runner lives must be known also while everybody waits for it.
func TestPingPasses(t *testing.T) {
	p, _ := connect(t, PeerOptions{})
	never, ending := io.Pipe()
	var calls sync.WaitGroup
	for n := range maxCalls {
		calls.Go(func() {
			_, _ = p.Call(t.Context(), Control{Op: OpPut, Args: ControlArgs{Path: fmt.Sprint("f", n)}}, never, nil)
		})
	}
	for len(p.calls.slots) < maxCalls {
		runtime.Gosched()
	}
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := p.Call(short, Control{Op: OpPing}, nil, nil); err == nil {
		t.Error("control: a call found a turn")
	}
	if err := p.Ping(t.Context()); err != nil {
		t.Errorf("ping: %v", err)
	}
	_ = ending.Close()
	calls.Wait()
}

func TestCalls(t *testing.T) {
	p, _ := connect(t, PeerOptions{})
	ctx := t.Context()
	reply, err := p.Call(ctx, Control{Op: OpPing}, nil, nil)
	if err != nil || string(reply.Body) != `{"pong":true}` {
		t.Fatalf("%s, %v", reply.Body, err)
	}
	content := bytes.Repeat([]byte("0123456789abcdef"), 200<<10)
	if _, err := p.Call(ctx, Control{Op: OpPut, Args: ControlArgs{Path: "f"}}, bytes.NewReader(content), nil); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := p.Call(ctx, Control{Op: OpGet, Args: ControlArgs{Path: "f"}}, nil, &out); err != nil || !bytes.Equal(out.Bytes(), content) {
		t.Fatalf("%d bytes back, %v", out.Len(), err)
	}
	if _, err := p.Call(ctx, Control{Op: OpGet, Args: ControlArgs{Path: "f"}}, nil, nil); err != nil {
		t.Errorf("output that nobody wants: %v", err)
	}

	for name, c := range map[string]struct {
		req  Control
		in   io.Reader
		code string
	}{
		"not found":   {Control{Op: OpGet, Args: ControlArgs{Path: "g"}}, nil, CodeNotFound},
		"unsupported": {Control{Op: "nonsense"}, nil, CodeUnsupported},
		"denied":      {Control{Op: OpPut, Args: ControlArgs{Path: "denied"}}, bytes.NewReader(content), CodeDenied},
	} {
		_, err := p.Call(ctx, c.req, c.in, nil)
		var refusal *CallError
		if !errors.As(err, &refusal) || refusal.Code != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}

	broken := errors.New("broken")
	if _, err := p.Call(ctx, Control{Op: OpPut, Args: ControlArgs{Path: "h"}}, iotest.ErrReader(broken), nil); !errors.Is(err, broken) {
		t.Errorf("input: %v", err)
	}
	if _, err := p.Call(ctx, Control{Op: OpGet, Args: ControlArgs{Path: "f"}}, nil, brokenWriter{broken}); !errors.Is(err, broken) {
		t.Errorf("output: %v", err)
	}
	if _, err := p.Call(ctx, Control{Op: OpGet, Args: ControlArgs{Path: "h"}}, nil, &out); err == nil {
		t.Error("a file whose input failed was stored")
	}
	if _, err := p.Call(ctx, Control{Op: "no op"}, nil, nil); err == nil || p.Err() != nil {
		t.Errorf("bad op: %v, %v", err, p.Err())
	}
}

type brokenWriter struct{ err error }

func (b brokenWriter) Write([]byte) (int, error) { return 0, b.err }

func TestCallGivenUp(t *testing.T) {
	p, _ := connect(t, PeerOptions{})
	cause := errors.New("enough")
	content := bytes.Repeat([]byte("x"), 8<<20)
	if _, err := p.Call(t.Context(), Control{Op: OpPut, Args: ControlArgs{Path: "f"}}, bytes.NewReader(content), nil); err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	defer func() { _ = w.Close() }()
	for name, call := range map[string]func(ctx context.Context, cancel func()) error{
		"silence": func(ctx context.Context, cancel func()) error {
			go cancel()
			_, err := p.Call(ctx, Control{Op: "silence"}, nil, nil)
			return err
		},
		"blocked input": func(ctx context.Context, cancel func()) error {
			go func() { _, _ = w.Write([]byte("x")); cancel() }()
			_, err := p.Call(ctx, Control{Op: OpPut, Args: ControlArgs{Path: "g"}}, r, nil)
			return err
		},
		"output": func(ctx context.Context, cancel func()) error {
			_, err := p.Call(ctx, Control{Op: OpGet, Args: ControlArgs{Path: "f"}}, nil, writerFunc(func(b []byte) (int, error) { cancel(); return len(b), nil }))
			return err
		},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		if err := call(ctx, func() { cancel(cause) }); !errors.Is(err, cause) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := p.Call(t.Context(), Control{Op: OpPing}, nil, nil); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func TestCallsBesideRun(t *testing.T) {
	p, _ := connect(t, PeerOptions{})
	var calls sync.WaitGroup
	for i := range 40 {
		calls.Go(func() {
			path := ControlArgs{Path: fmt.Sprintf("f%d", i)}
			content := bytes.Repeat([]byte{byte(i)}, 700_000)
			if _, err := p.Call(t.Context(), Control{Op: OpPut, Args: path}, bytes.NewReader(content), nil); err != nil {
				t.Error(err)
				return
			}
			var out bytes.Buffer
			if _, err := p.Call(t.Context(), Control{Op: OpGet, Args: path}, nil, &out); err != nil || !bytes.Equal(out.Bytes(), content) {
				t.Errorf("file %d: %d bytes, %v", i, out.Len(), err)
			}
		})
	}
	for i := range 20 {
		if _, err := p.Run(t.Context(), Run{ID: RunID(fmt.Sprintf("r%d", i)), Source: source("out a", "show image/png 400000", "flood 100000")}, (&record{}).emit); err != nil {
			t.Error(err)
		}
	}
	calls.Wait()
}

func TestEmitPanics(t *testing.T) {
	p, _ := connect(t, PeerOptions{}) // whose clean-up counts goroutines
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_, _ = p.Run(t.Context(), Run{ID: "r1", Source: source("out a", "hang")}, func(Event) error { panic("emit") })
	}()
	var lost *LostError
	if _, err := p.Run(t.Context(), Run{ID: "r2"}, nil); !errors.As(err, &lost) {
		t.Errorf("next run: %v", err)
	}
}

func TestBeforeHello(t *testing.T) {
	pp := newPipes(t)
	p := NewPeer(pp.brigR, pp.brigW, PeerOptions{Close: pp.closeBrig})
	defer func() { _ = p.Close() }()
	if _, err := p.Run(t.Context(), Run{ID: "r1"}, nil); err == nil {
		t.Error("a run before hello was accepted")
	}
	if _, err := p.Call(t.Context(), Control{Op: OpPing}, nil, nil); err == nil {
		t.Error("a call before hello was accepted")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Hello(ctx, testHello()); !errors.Is(err, context.Canceled) {
		t.Errorf("hello: %v", err)
	}
	if _, err := p.Hello(t.Context(), testHello()); err == nil {
		t.Error("a second hello was accepted")
	}
}
