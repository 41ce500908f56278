package wire

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"
)

// resumed lets use talk to a runner that is taken up again. The runner first says
// stale, what is left of an old conversation; before brig's mark it hears unheard.
func resumed(t testing.TB, stale, unheard []byte, first ResumedMessage, use func(p *Peer, x *testRunner, got Resumed)) {
	t.Helper()
	before := runtime.NumGoroutine()
	secret := NewSecret()
	pp := newPipes(t)
	runner := make(chan *testRunner, 1)
	go func() {
		_, _ = pp.runnerW.Write(stale)
		if err := Answer(pp.runnerR, pp.runnerW, secret); err != nil {
			t.Errorf("answer: %v", err)
		}
		x := startRunner(pp.runnerR, pp.runnerW, pp.closeRunner)
		if err := x.mux.Post(first); err != nil {
			t.Errorf("say resumed: %v", err)
		}
		runner <- x
	}()
	if _, err := pp.brigW.Write(unheard); err != nil {
		t.Fatal(err)
	}
	p, got, err := Resume(t.Context(), pp.brigR, pp.brigW, secret, PeerOptions{Close: pp.closeBrig})
	if err != nil {
		t.Fatal(err)
	}
	x := <-runner
	use(p, x, got)
	if err := p.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	x.close()
	settle(t, before)
}

// TestResumeCutEverywhere takes a conversation up again that was cut at any byte,
// in either direction: what is left of it is passed over, and nothing is missing
// from the new one.
func TestResumeCutEverywhere(t *testing.T) {
	c, _ := recordConversation(t)
	var said, heard []byte
	for _, f := range c.frames {
		if f.from == "brig" {
			heard = append(heard, f.raw...)
		} else {
			said = append(said, f.raw...)
		}
	}
	again := func(stale, unheard []byte) {
		resumed(t, stale, unheard, ResumedMessage{Ready: testReady()}, func(p *Peer, _ *testRunner, got Resumed) {
			if got.Run != "" || got.Ready.Runner != testReady().Runner {
				t.Errorf("resumed: %+v", got)
			}
			converse(t.Context(), p, func(err error) {
				if err != nil {
					t.Errorf("%d bytes unread, %d unheard: %v", len(stale), len(unheard), err)
				}
			})
		})
	}
	step := 1
	if testing.Short() {
		step = 17
	}
	for cut := 0; cut <= len(said); cut += step {
		again(said[cut:], nil)
	}
	for cut := 0; cut <= len(heard); cut += step {
		again(nil, heard[cut:])
	}
}

// TestResumeRunning: the run of the old conversation is known, can be interrupted
// and waited for, stands in the way of another, and what it prints goes nowhere.
func TestResumeRunning(t *testing.T) {
	resumed(t, nil, nil, ResumedMessage{Ready: testReady(), Run: "old"}, func(p *Peer, x *testRunner, got Resumed) {
		ctx := t.Context()
		if got.Run != "old" {
			t.Fatalf("resumed: %+v", got)
		}
		if _, err := p.Hello(ctx, testHello()); err == nil {
			t.Error("hello was said again")
		}
		if _, err := p.Run(ctx, Run{ID: "r1", Source: source("out no")}, nil); !errors.Is(err, ErrBusy) {
			t.Errorf("a run beside it: %v", err)
		}
		if err := p.Interrupt(ctx, "r1", Soft, true); !errors.Is(err, ErrNotRunning) {
			t.Errorf("interrupt of another: %v", err)
		}
		if _, err := p.Finish(ctx, "r1"); !errors.Is(err, ErrNotRunning) {
			t.Errorf("the end of another: %v", err)
		}
		gone, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := p.Finish(gone, "old"); !errors.Is(err, context.Canceled) {
			t.Errorf("gave up waiting: %v", err)
		}
		x.mu.Lock()
		x.current, x.hit = "old", make(chan Level, 1)
		x.mu.Unlock()
		if err := p.Interrupt(ctx, "old", Soft, true); err != nil {
			t.Error(err)
		}
		if level := <-x.hit; level != Soft {
			t.Errorf("interrupted %s", level)
		}
		_ = x.mux.Output(StreamStdout, []byte("of the old one\n"))
		_ = x.mux.Send(Exit{Run: "old", Outcome: OutcomeInterrupted, State: StateKept})
		for range 2 {
			if exit, err := p.Finish(ctx, "old"); err != nil || exit.Outcome != OutcomeInterrupted {
				t.Errorf("finish: %+v, %v", exit, err)
			}
		}
		if err := p.Interrupt(ctx, "old", Hard, true); !errors.Is(err, ErrNotRunning) {
			t.Errorf("interrupt after its end: %v", err)
		}
		var seen record
		if _, err := p.Run(ctx, Run{ID: "r1", Source: source("out new")}, seen.emit); err != nil || seen.String() != "out(r1) \"new\\n\"\n" {
			t.Errorf("the next run: %v\n%s", err, seen.String())
		}
		if late := p.TakeLate(); len(late) > 0 {
			t.Errorf("late: %+v", late)
		}
		if err := p.Ping(ctx); err != nil {
			t.Error(err)
		}
	})
}

// TestResumeEnded: a program that has run its course takes no further run.
func TestResumeEnded(t *testing.T) {
	resumed(t, nil, nil, ResumedMessage{Ready: testReady(), Ended: true}, func(p *Peer, _ *testRunner, _ Resumed) {
		if _, err := p.Run(t.Context(), Run{ID: "r1"}, nil); !errors.Is(err, ErrEnded) {
			t.Errorf("run: %v", err)
		}
	})
}

// TestResumeFinishLost: the connection ends while the end of the old run is waited for.
func TestResumeFinishLost(t *testing.T) {
	resumed(t, nil, nil, ResumedMessage{Ready: testReady(), Run: "old"}, func(p *Peer, x *testRunner, _ Resumed) {
		x.mux.fail(io.EOF)
		if _, err := p.Finish(t.Context(), "old"); !errors.As(err, new(*LostError)) {
			t.Errorf("finish: %v", err)
		}
	})
}

// TestResumeHostile: whatever a runner answers instead, Resume ends with the right
// error, closes the transport once, and leaves nothing running.
func TestResumeHostile(t *testing.T) {
	secret := NewSecret()
	answer := func(x *raw) {
		if err := Answer(x.r.r, x.w, secret); err != nil {
			t.Errorf("answer: %v", err)
		}
	}
	var (
		protocol = func(err error) bool { return errors.As(err, new(*ProtocolError)) }
		lost     = func(err error) bool { return errors.As(err, new(*LostError)) }
		timeout  = func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }
	)
	for name, c := range map[string]struct {
		script func(x *raw)
		good   func(error) bool
	}{
		"silence":       {func(x *raw) { _, _ = io.Copy(io.Discard, x.r.r) }, timeout},
		"end":           {func(*raw) {}, lost},
		"half a mark":   {func(x *raw) { _, _ = io.WriteString(x.w, runnerMark) }, lost},
		"an old answer": {func(x *raw) { _, _ = x.w.Write(markOfRunner(secret, make([]byte, nonceSize))); x.ready() }, lost},
		"brig's own mark": {func(x *raw) {
			mark := make([]byte, brigSize)
			_, _ = io.ReadFull(x.r.r, mark)
			_, _ = x.w.Write(mark)
		}, lost},
		"another secret": {func(x *raw) { _ = Answer(x.r.r, x.w, NewSecret()) }, timeout},
		"endless": {func(x *raw) {
			flood := bytes.Repeat([]byte(runnerMark), 4096)
			for {
				if _, err := x.w.Write(flood); err != nil {
					return
				}
			}
		}, protocol},
		"silence after the mark": {func(x *raw) { answer(x); _, _ = io.Copy(io.Discard, x.r.r) }, timeout},
		"end after the mark":     {answer, lost},
		"ready":                  {func(x *raw) { answer(x); x.ready() }, protocol},
		"started":                {func(x *raw) { answer(x); x.json(`{"type":"started","run":"r1"}`) }, protocol},
		"noise":                  {func(x *raw) { answer(x); x.data(4, "x") }, protocol},
		"another version":        {func(x *raw) { answer(x); x.json(`{"type":"resumed","ready":{"type":"ready","version":1}}`) }, protocol},
		"no ready":               {func(x *raw) { answer(x); x.json(`{"type":"resumed"}`) }, protocol},
	} {
		t.Run(name, func(t *testing.T) {
			before := runtime.NumGoroutine()
			pp := newPipes(t)
			done := make(chan struct{})
			go func() {
				defer close(done)
				c.script(&raw{t: t, r: NewReader(pp.runnerR), w: pp.runnerW})
				_ = pp.runnerW.Close()
				_, _ = io.Copy(io.Discard, pp.runnerR)
			}()
			patience := time.Minute
			if name == "silence" || name == "another secret" || name == "silence after the mark" {
				patience = 50 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			var closed atomic.Int32
			p, _, err := Resume(ctx, pp.brigR, pp.brigW, secret, PeerOptions{Close: func() error {
				closed.Add(1)
				return pp.closeBrig()
			}})
			if p != nil || !c.good(err) {
				t.Errorf("%v", err)
			}
			if n := closed.Load(); n != 1 {
				t.Errorf("closed %d times", n)
			}
			<-done
			_ = pp.closeRunner()
			settle(t, before)
		})
	}
}

// TestResumedTwice: the beginning is said once, and only where it was asked for.
func TestResumedTwice(t *testing.T) {
	resumed(t, nil, nil, ResumedMessage{Ready: testReady()}, func(p *Peer, x *testRunner, _ Resumed) {
		_ = x.mux.Post(ResumedMessage{Ready: testReady()})
		<-p.Done()
		if err := p.Err(); !errors.As(err, new(*ProtocolError)) {
			t.Errorf("resumed twice: %v", err)
		}
	})
	p, x := connect(t, PeerOptions{})
	_ = x.mux.Post(ResumedMessage{Ready: testReady()})
	<-p.Done()
	if err := p.Err(); !errors.As(err, new(*ProtocolError)) {
		t.Errorf("resumed without Resume: %v", err)
	}
}

// TestResumeWriteFails: a transport that takes nothing is lost, whatever it says.
func TestResumeWriteFails(t *testing.T) {
	r, w := io.Pipe()
	broken := writerFunc(func([]byte) (int, error) { return 0, errors.New("broken") })
	_, _, err := Resume(t.Context(), r, broken, NewSecret(), PeerOptions{Close: w.Close})
	if !errors.As(err, new(*LostError)) || !strings.Contains(err.Error(), "broken") {
		t.Errorf("%v", err)
	}
}

// FuzzMark looks for a mark in anything: the right one is found where it stands
// first, whatever pieces it comes in, and nothing beyond it is taken.
func FuzzMark(f *testing.F) {
	f.Add([]byte(runnerMark), []byte("after"), uint64(1))
	f.Add([]byte(runnerMark[:5]+brigMark), []byte(runnerMark), uint64(2))
	f.Add(bytes.Repeat([]byte{magic0}, 100), []byte{}, uint64(3))
	f.Fuzz(func(t *testing.T, stale, after []byte, seed uint64) {
		secret := NewSecret()
		nonce := bytes.Repeat([]byte{byte(seed)}, nonceSize)
		for _, mark := range [][]byte{markOfRunner(secret, nonce), markOfBrig(secret, nonce)} {
			stream := append(append(bytes.Clone(stale), mark...), after...)
			r := bufio.NewReaderSize(io.MultiReader(
				&pieces{r: bytes.NewReader(stream), rand: rand.New(rand.NewPCG(seed, 0))}, iotest.ErrReader(io.EOF)), len(mark))
			if err := discardThrough(r, mark); err != nil {
				t.Fatalf("the mark was not found: %v", err)
			}
			if rest, err := io.ReadAll(r); err != nil || !bytes.Equal(rest, after) {
				t.Fatalf("after it came %q, %v; want %q", rest, err, after)
			}
			without := bufio.NewReaderSize(bytes.NewReader(append(bytes.Clone(stale), after...)), len(mark))
			if err := discardThrough(without, mark); !errors.As(err, new(*LostError)) {
				t.Fatalf("a mark in nothing: %v", err)
			}
		}
		var out bytes.Buffer
		in := bytes.NewReader(append(append(bytes.Clone(stale), markOfBrig(secret, nonce)...), after...))
		if err := Answer(in, &out, secret); err != nil || !bytes.Equal(out.Bytes(), markOfRunner(secret, nonce)) {
			t.Fatalf("answer: %v, %q", err, out.Bytes())
		}
		if rest, _ := io.ReadAll(in); !bytes.Equal(rest, after) {
			t.Fatalf("after the mark came %q", rest)
		}
		if err := Answer(bytes.NewReader(append(bytes.Clone(stale), markOfBrig(NewSecret(), nonce)...)), &out, secret); !errors.Is(err, io.EOF) {
			t.Fatalf("another secret was answered: %v", err)
		}
	})
}

// pieces reads a little at a time.
type pieces struct {
	r    io.Reader
	rand *rand.Rand
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	return p.r.Read(b[:1+p.rand.IntN(min(len(b), 40))])
}
