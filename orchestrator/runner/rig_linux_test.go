package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"brig/orchestrator/wire"
)

// A rig is one runner, really started, with a Peer on its pipes.
type rig struct {
	*wire.Peer
	t         *testing.T
	cmd       *exec.Cmd
	stdin     io.Closer
	stderr    *syncBuffer
	workspace string
	scratch   string
	ready     wire.Ready
	ended     chan struct{} // closed when the process has been waited for
	runs      int
}

// syncBuffer is the diagnostics of a runner, which may be read while it runs.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

const kept, logged = 64 << 10, 1 << 20

func hello() wire.Hello {
	return wire.Hello{
		Version: wire.Version,
		Bounds:  wire.Bounds{Kept: kept, Logged: logged, Display: 8 << 20},
	}
}

// limited bounds what should take a moment, with room for a loaded machine.
func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// start starts a runner and greets it.
func start(t *testing.T, p interpreter) *rig { return startWith(t, p, hello()) }

func startWith(t *testing.T, p interpreter, h wire.Hello) *rig {
	t.Helper()
	return greet(t, launch(t, p), h)
}

func greet(t *testing.T, r *rig, h wire.Hello) *rig {
	t.Helper()
	h.Workspace, h.Scratch = r.workspace, r.scratch
	ready, err := r.Hello(limited(t), h)
	if err != nil {
		t.Fatalf("hello: %v\n%s", err, r.stderr)
	}
	r.ready = ready
	return r
}

// launch starts a runner that has not been greeted yet.
func launch(t *testing.T, p interpreter) *rig { return launchAs(t, p) }

// launchAs starts it through another program, which takes its command as arguments.
func launchAs(t *testing.T, p interpreter, by ...string) *rig {
	t.Helper()
	r, dir := newRig(t)
	argv := append(append(by, p.path, "-I", "-u", shared.script), shared.arguments...)
	cmd := exec.Command(argv[0], argv[1:]...)
	unprivileged(cmd)
	cmd.Dir, cmd.Stderr, cmd.Env = "/", r.stderr, append([]string{"PATH=/usr/bin:/bin"}, p.env...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.cmd, r.stdin = cmd, stdin
	r.Peer = wire.NewPeer(stdout, stdin, wire.PeerOptions{RingBytes: 64 << 20, Close: func() error {
		return errors.Join(stdin.Close(), stdout.Close())
	}})
	r.watch(dir, func() { _ = r.Close() })
	return r
}

// newRig makes the directories of a runner; dir holds them.
func newRig(t *testing.T) (r *rig, dir string) {
	t.Helper()
	dir, err := os.MkdirTemp(shared.dir, "rig-")
	if err != nil {
		t.Fatal(err)
	}
	r = &rig{t: t, stderr: &syncBuffer{}, ended: make(chan struct{}), workspace: filepath.Join(dir, "ws"), scratch: filepath.Join(dir, "scratch")}
	for _, d := range []string{dir, r.workspace, r.scratch} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if os.Getuid() == 0 {
			if err := os.Chown(d, nobody, nobody); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return r, dir
}

// watch waits for the process, which is made to end when the test is over.
func (r *rig) watch(dir string, end func()) {
	t := r.t
	go func() {
		defer close(r.ended)
		_ = r.cmd.Wait() // how it ended is in cmd.ProcessState
	}()
	t.Cleanup(func() {
		end()
		select {
		case <-r.ended:
		case <-time.After(10 * time.Second):
			_ = r.cmd.Process.Kill()
			t.Error("the runner did not end when its input did")
			<-r.ended
		}
		if text := r.stderr.String(); t.Failed() && text != "" {
			t.Logf("the runner said: %s", text)
		}
		if os.RemoveAll(dir) != nil {
			_ = exec.Command("chmod", "-R", "u+rwx", dir).Run()
			_ = os.RemoveAll(dir)
		}
	})
}

// result is everything that one run brought.
type result struct {
	wire.Exit
	err      error
	out      string
	errout   string
	late     string // of both streams
	displays []wire.Display
	gaps     map[uint32]int64
	gapAt    map[uint32]int // how much output stood before it
}

func (r *result) collect(e wire.Event) {
	switch {
	case e.Late:
		r.late += string(e.Data)
		if e.Kind == wire.EventGap {
			r.late += fmt.Sprintf("[%d dropped]", e.Dropped)
		}
	case e.Kind == wire.EventStdout:
		r.out += string(e.Data)
	case e.Kind == wire.EventStderr:
		r.errout += string(e.Data)
	case e.Kind == wire.EventDisplay:
		r.displays = append(r.displays, *e.Display)
	case e.Kind == wire.EventGap:
		r.gaps[e.Stream] += e.Dropped
		r.gapAt[e.Stream] = len(r.out)
		if e.Stream == wire.StreamStderr {
			r.gapAt[e.Stream] = len(r.errout)
		}
	}
}

// part returns the representation of a kind in the last display.
func (r *result) part(mime string) string {
	if len(r.displays) == 0 {
		return "(no display)"
	}
	for _, p := range r.displays[len(r.displays)-1].Data {
		if p.MIME == mime {
			return string(p.Data)
		}
	}
	return "(no such part)"
}

func (r *result) String() string {
	s := fmt.Sprintf("%s status %d signal %d state %s swept %d err %v\nstdout %.300q\nstderr %.300q", r.Outcome, r.Status, r.Signal, r.State, r.Swept, r.err, r.out, r.errout)
	if r.Exception != nil {
		s += "\n" + r.Exception.Traceback
	}
	return s
}

func (r *rig) nextID() wire.RunID {
	r.runs++
	return wire.RunID(fmt.Sprintf("r%d", r.runs))
}

// run runs source to its end.
func (r *rig) run(source string) *result { return r.runAs(wire.Run{Source: []byte(source)}) }

func (r *rig) once(source string) *result {
	return r.runAs(wire.Run{Source: []byte(source), Once: true})
}

func (r *rig) runAs(req wire.Run) *result {
	r.t.Helper()
	if req.ID == "" {
		req.ID = r.nextID()
	}
	return r.runEach(req, func(wire.Event) {})
}

// runEach also shows every event to watch, as it comes.
func (r *rig) runEach(req wire.Run, watch func(wire.Event)) *result {
	r.t.Helper()
	got := &result{gaps: make(map[uint32]int64), gapAt: make(map[uint32]int)}
	got.Exit, got.err = r.Run(limited(r.t), req, func(e wire.Event) error {
		got.collect(e)
		watch(e)
		return nil
	})
	return got
}

// ok runs source and wants it to succeed.
func (r *rig) ok(source string) *result {
	r.t.Helper()
	got := r.run(source)
	if got.err != nil || got.Outcome != wire.OutcomeOK {
		r.t.Fatalf("run of %.200q: %s", source, got)
	}
	return got
}

// A running run is one that goes on while the test does other things.
type running struct {
	id   wire.RunID
	done chan *result
	seen chan struct{} // a token whenever there is new output
	mu   sync.Mutex
	out  string
}

func (r *rig) background(source string) *running {
	run := &running{id: r.nextID(), done: make(chan *result, 1), seen: make(chan struct{}, 1)}
	go func() {
		run.done <- r.runEach(wire.Run{ID: run.id, Source: []byte(source)}, func(e wire.Event) {
			if e.Kind == wire.EventStdout && !e.Late {
				run.mu.Lock()
				run.out += string(e.Data)
				run.mu.Unlock()
				select {
				case run.seen <- struct{}{}:
				default:
				}
			}
		})
	}()
	return run
}

// until waits for text in the output of a run.
func (run *running) until(t *testing.T, text string) {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		run.mu.Lock()
		found := strings.Contains(run.out, text)
		run.mu.Unlock()
		if found {
			return
		}
		select {
		case <-run.seen:
		case got := <-run.done:
			run.done <- got
			if !strings.Contains(got.out, text) {
				t.Fatalf("the run ended without %q: %s", text, got)
			}
			return
		case <-timeout:
			t.Fatalf("no %q in the output", text)
		}
	}
}

func (r *rig) interrupt(run *running, level wire.Level, sweep bool) {
	r.t.Helper()
	if err := r.Interrupt(limited(r.t), run.id, level, sweep); err != nil {
		r.t.Fatalf("interrupt: %v", err)
	}
}

// call makes a call that has to succeed and decodes its body into body, unless that is nil.
func (r *rig) call(op wire.Op, args wire.ControlArgs, body any) {
	r.t.Helper()
	reply, err := r.Call(limited(r.t), wire.Control{Op: op, Args: args}, nil, nil)
	if err != nil {
		r.t.Fatalf("%s: %v", op, err)
	}
	if body != nil {
		if err := json.Unmarshal(reply.Body, body); err != nil {
			r.t.Fatalf("body of %s: %v", op, err)
		}
	}
}

func (r *rig) put(path, content string) error {
	_, err := r.Call(limited(r.t), wire.Control{Op: wire.OpPut, Args: wire.ControlArgs{Path: path}}, strings.NewReader(content), nil)
	return err
}

func (r *rig) get(path string) (string, error) {
	var b bytes.Buffer
	_, err := r.Call(limited(r.t), wire.Control{Op: wire.OpGet, Args: wire.ControlArgs{Path: path}}, nil, &b)
	return b.String(), err
}

// code is the code of a refused call, or what else became of it.
func code(err error) string {
	refused := new(wire.CallError)
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &refused):
		return refused.Code
	}
	return err.Error()
}

// await waits until a condition holds that nothing announces.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for until := time.Now().Add(20 * time.Second); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("%s: it did not come to that", what)
		}
	}
}

// waited waits until the runner's process has ended, and returns its exit code.
func (r *rig) waited() int {
	r.t.Helper()
	select {
	case <-r.ended:
	case <-time.After(20 * time.Second):
		r.t.Fatal("the runner did not end")
	}
	return r.cmd.ProcessState.ExitCode()
}

func (run *running) text() string {
	run.mu.Lock()
	defer run.mu.Unlock()
	return run.out
}

// numbers are the words of text that are numbers.
func numbers(text string) []int {
	var found []int
	for _, word := range strings.Fields(text) {
		if n, err := strconv.Atoi(word); err == nil {
			found = append(found, n)
		}
	}
	return found
}

// file reads a file of the workspace from outside.
func (r *rig) file(path string) []byte {
	r.t.Helper()
	data, err := os.ReadFile(filepath.Join(r.workspace, path))
	if err != nil {
		r.t.Fatal(err)
	}
	return data
}

// gone tells whether a process has ended.
func gone(pid int) bool {
	return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || os.Getenv(darwinVariable) != "" && zombie(pid)
}

func sprintf(format string, args ...any) string { return fmt.Sprintf(format, args...) }

func unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }
