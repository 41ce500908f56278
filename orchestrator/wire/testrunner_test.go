package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// testRunner is the other end of the protocol, written on Mux like any runner
// in Go. Its language has one command per line:
//
//	out TEXT, err TEXT   write a line
//	flood N              write N bytes to stdout
//	gap N                say that N bytes of stdout were dropped
//	show KIND N          display N bytes as KIND, on a stream if they are many
//	raise NAME           end with an exception
//	exit N               end with a status
//	wait                 until interrupted
//	hang                 until the connection ends, deaf to interrupts
//	late TEXT            written after the exit
//	unread               do not read the source; first line only
type testRunner struct {
	mux  *Mux
	wg   sync.WaitGroup
	done chan struct{} // Serve has returned

	mu      sync.Mutex
	current RunID
	hit     chan Level // capacity 1
	files   map[string][]byte
}

func startRunner(r io.Reader, w io.Writer, closeTransport func() error) *testRunner {
	x := &testRunner{files: make(map[string][]byte), done: make(chan struct{})}
	x.mux = NewMux(r, w, MuxOptions{Role: RoleRunner, Message: x.message, Close: closeTransport})
	go func() {
		defer close(x.done)
		_ = x.mux.Serve()
	}()
	return x
}

func (x *testRunner) close() {
	_ = x.mux.Close()
	<-x.done
	x.wg.Wait()
}

func testReady() Ready {
	return Ready{
		Version: Version, Runner: strings.Repeat("ab", 32), Python: "3.13.5", Implementation: "cpython", Executable: "/usr/bin/python3",
		Observed: Observed{
			PID: 2, UID: 1000, GID: 1000, Status: map[string]string{"NoNewPrivs": "1"}, Interfaces: []string{"lo"},
			Rlimits: map[string]Rlimit{"nofile": {Soft: 1024, Hard: 1024}}, Attempts: map[string]string{"write_root": "EACCES"},
		},
	}
}

func (x *testRunner) message(m Message) error {
	switch m := m.(type) {
	case Hello:
		return x.mux.Post(testReady())
	case RunMessage:
		code, err := x.mux.Accept(m.Code)
		if err != nil {
			return err
		}
		x.mu.Lock()
		x.current, x.hit = m.ID, make(chan Level, 1)
		hit := x.hit
		x.mu.Unlock()
		x.wg.Go(func() { x.run(m, code, hit) })
	case CallMessage:
		var in *RecvStream
		if m.In != 0 {
			var err error
			if in, err = x.mux.Accept(m.In); err != nil {
				return err
			}
		}
		x.wg.Go(func() { x.call(m, in) })
	}
	return nil
}

func (x *testRunner) run(m RunMessage, code *RecvStream, hit chan Level) {
	exit := Exit{Run: m.ID, Outcome: OutcomeOK, State: StateKept, Elapsed: time.Millisecond}
	var late []string
	if m.Size == 6 { // "unread"
		code.Reset("not read")
	} else {
		source, err := io.ReadAll(code)
		if err != nil || int64(len(source)) != m.Size {
			return
		}
		_ = x.mux.Send(StartedMessage{Run: m.ID})
		for line := range strings.Lines(string(source)) {
			command, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			if command == "late" {
				late = append(late, rest)
				continue
			}
			if !x.step(&exit, command, rest, hit) {
				break
			}
		}
	}
	if m.Once {
		exit.State = StateEnded
	}
	x.mu.Lock()
	x.current = ""
	x.mu.Unlock()
	_ = x.mux.Send(exit)
	for _, text := range late {
		_ = x.mux.Output(StreamStdout, []byte(text+"\n"))
	}
	if m.Once {
		go x.mux.fail(io.EOF) // as a process that ends
	}
}

// step executes one line; false: it was the last.
func (x *testRunner) step(exit *Exit, command, rest string, hit chan Level) bool {
	switch command {
	case "out", "err":
		stream, count := StreamStdout, &exit.Stdout
		if command == "err" {
			stream, count = StreamStderr, &exit.Stderr
		}
		_ = x.mux.Output(stream, []byte(rest+"\n"))
		count.Total += int64(len(rest) + 1)
		count.Kept += int64(len(rest) + 1)
	case "flood":
		n, _ := strconv.Atoi(rest)
		chunk := bytes.Repeat([]byte("x"), MaxPayload)
		for left := n; left > 0; left -= len(chunk) {
			_ = x.mux.Output(StreamStdout, chunk[:min(left, len(chunk))])
		}
		exit.Stdout.Total += int64(n)
		exit.Stdout.Kept += int64(n)
	case "gap":
		n, _ := strconv.ParseInt(rest, 10, 64)
		_ = x.mux.Send(GapMessage{Run: exit.Run, Name: "stdout", Bytes: n})
		exit.Stdout.Total += n
		exit.Stdout.Dropped += n
	case "show":
		kind, size, _ := strings.Cut(rest, " ")
		n, _ := strconv.Atoi(size)
		x.show(exit.Run, kind, n)
		exit.Displays++
	case "raise":
		exit.Outcome, exit.Exception = OutcomeException, &Exception{Name: rest, Message: "oh", Traceback: "Traceback…\n" + rest + ": oh\n"}
		return false
	case "exit":
		exit.Outcome = OutcomeExit
		exit.Status, _ = strconv.Atoi(rest)
		return false
	case "wait":
		select {
		case level := <-hit:
			if level == Soft {
				exit.Outcome = OutcomeInterrupted
			} else {
				exit.Outcome, exit.Signal, exit.Hard, exit.State = OutcomeSignal, 9, true, StateLost
			}
		case <-x.mux.Done():
		}
		return false
	case "hang":
		<-x.mux.Done()
		return false
	}
	return true
}

func (x *testRunner) show(run RunID, kind string, n int) {
	text := "text of it"
	streams, err := x.mux.Announce(1, func(s []*SendStream) Message {
		return DisplayMessage{Run: run, Role: "figure", Bundle: []BundlePart{
			{MIME: kind, Size: int64(n), Stream: s[0].ID()},
			{MIME: "text/plain", Size: int64(len(text)), Text: &text},
		}}
	})
	if err != nil {
		return
	}
	if streams[0].Send(context.Background(), bytes.Repeat([]byte{7}, n)) == nil {
		_ = streams[0].End(context.Background())
	}
}

func (x *testRunner) call(m CallMessage, in *RecvStream) {
	refuse := func(code string) {
		if in != nil {
			in.Reset(code)
		}
		_ = x.mux.Send(ReplyMessage{ID: m.ID, Error: &CallError{Code: code, Message: "no"}})
	}
	switch m.Op {
	case OpPing:
		_ = x.mux.Send(ReplyMessage{ID: m.ID, Body: json.RawMessage(`{"pong":true}`)})
	case OpPut:
		if m.Args.Path == "denied" {
			refuse(CodeDenied)
			return
		}
		content, err := io.ReadAll(in)
		if err != nil {
			refuse(CodeFailed)
			return
		}
		x.mu.Lock()
		x.files[m.Args.Path] = content
		x.mu.Unlock()
		_ = x.mux.Send(ReplyMessage{ID: m.ID})
	case OpGet:
		x.mu.Lock()
		content, ok := x.files[m.Args.Path]
		x.mu.Unlock()
		if !ok {
			refuse(CodeNotFound)
			return
		}
		out, err := x.mux.Announce(1, func(s []*SendStream) Message { return ReplyMessage{ID: m.ID, Out: s[0].ID()} })
		if err == nil && out[0].Send(context.Background(), content) == nil {
			_ = out[0].End(context.Background())
		}
	case OpInterrupt:
		x.mu.Lock()
		running := x.current == m.Args.Run
		hit := x.hit
		x.mu.Unlock()
		if !running {
			refuse(CodeNotRunning)
			return
		}
		_ = x.mux.Send(ReplyMessage{ID: m.ID})
		select {
		case hit <- m.Args.Level:
		default:
		}
	case "silence":
	default:
		refuse(CodeUnsupported)
	}
}

// pipes are two connected ends that close as a whole.
type pipes struct {
	brigR, runnerR *os.File
	brigW, runnerW *os.File
}

func newPipes(t testing.TB) *pipes {
	t.Helper()
	toBrig, fromRunner, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	toRunner, fromBrig, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := &pipes{brigR: toBrig, runnerW: fromRunner, runnerR: toRunner, brigW: fromBrig}
	t.Cleanup(func() { _, _ = p.closeBrig(), p.closeRunner() })
	return p
}

func (p *pipes) closeBrig() error   { return errors.Join(p.brigR.Close(), p.brigW.Close()) }
func (p *pipes) closeRunner() error { return errors.Join(p.runnerR.Close(), p.runnerW.Close()) }

// connect returns a greeted Peer of a testRunner. When the test ends, nothing may be left running.
func connect(t testing.TB, o PeerOptions) (*Peer, *testRunner) {
	t.Helper()
	before := runtime.NumGoroutine()
	pp := newPipes(t)
	x := startRunner(pp.runnerR, pp.runnerW, pp.closeRunner)
	o.Close = pp.closeBrig
	p := NewPeer(pp.brigR, pp.brigW, o)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		x.close()
		settle(t, before)
	})
	if _, err := p.Hello(t.Context(), testHello()); err != nil {
		t.Fatal(err)
	}
	return p, x
}

func testHello() Hello {
	return Hello{Workspace: "/workspace", Scratch: "/scratch", Bounds: Bounds{Kept: 1 << 20, Logged: 64 << 20, Display: 1 << 20}}
}

// settle waits until no more goroutines run than before.
func settle(t testing.TB, before int) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for runtime.NumGoroutine() > before {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
		}
		time.Sleep(time.Millisecond) // there is no event for the end of a goroutine
	}
}

// record collects events with their data copied.
type record struct{ events []Event }

func (r *record) emit(e Event) error {
	e.Data = bytes.Clone(e.Data)
	r.events = append(r.events, e)
	return nil
}

func (r *record) String() string {
	var b strings.Builder
	for _, e := range r.events {
		if e.Late {
			b.WriteString("late ")
		}
		switch e.Kind {
		case EventStdout:
			fmt.Fprintf(&b, "out(%s) %q\n", e.Run, e.Data)
		case EventStderr:
			fmt.Fprintf(&b, "err(%s) %q\n", e.Run, e.Data)
		case EventGap:
			fmt.Fprintf(&b, "gap(%s) %d %d %t\n", e.Run, e.Stream, e.Dropped, e.Slow)
		case EventDisplay:
			fmt.Fprintf(&b, "display(%s) %s", e.Run, e.Display.Role)
			for _, p := range e.Display.Data {
				fmt.Fprintf(&b, " %s:%d", p.MIME, len(p.Data))
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}
