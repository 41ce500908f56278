package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"brig/orchestrator"
	"brig/orchestrator/sandbox"
)

// TestDetachedSession: on an engine that sees nothing of this machine a session's
// workspace is what it is elsewhere, over many runs and both ways.
func TestDetachedSession(t *testing.T) {
	socket := engineSocket(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	forward(t, l, socket)
	t.Setenv("DOCKER_HOST", "tcp://"+l.Addr().String())
	s, err := liveBrig(t, sandbox.Docker).Open(t.Context(), orchestrator.SessionOptions{})
	must(t, err)
	defer func() { must(t, s.Close(context.Background())) }()
	if !s.Posture().Detached {
		t.Fatal("the engine is said to see this machine's directories")
	}
	run := func(code string) orchestrator.Result {
		t.Helper()
		r, err := s.Run(t.Context(), orchestrator.RunRequest{Source: []byte(code)}, nil)
		must(t, err)
		if r.Cause != sandbox.OK || len(r.NotCarried) > 0 {
			t.Fatalf("cause %s (%s): %+v", r.Cause, r.Detail, r.Exception)
		}
		return r
	}
	dir := s.Workspace().Dir()
	read := func(name string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(dir, name))
		must(t, err)
		return string(b)
	}

	const n = 200
	done := s.Workspace().Batch()
	for i := range n {
		_, err := s.Workspace().Put(fmt.Sprintf("in/%d/%03d", i%7, i), strings.NewReader(fmt.Sprint(i)), 0)
		must(t, err)
	}
	done()
	run(fmt.Sprintf(`
import glob, os
names = glob.glob("in/*/*")
assert len(names) == %d and sum(int(open(n).read()) for n in names) == sum(range(%d)), len(names)
for n in names[:50]:
    open(n, "a").write("!")
for n in names[50:100]:
    os.remove(n)
for i in range(250):
    with open("out%%d" %% i, "w") as f: f.write(str(i))
open("tool", "w").write("#!/bin/sh\n"); os.chmod("tool", 0o755)
open("caf\u00e9 \U0001f40d", "w").write("named")`, n, n))
	changed, gone := 0, 0
	for i := range n {
		switch b, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("in/%d/%03d", i%7, i))); {
		case os.IsNotExist(err):
			gone++
		case err == nil && string(b) == fmt.Sprint(i, "!"):
			changed++
		case err != nil || string(b) != fmt.Sprint(i):
			t.Errorf("%d holds %q, %v", i, b, err)
		}
	}
	if changed != 50 || gone != 50 {
		t.Errorf("%d changed and %d removed, want 50 of each", changed, gone)
	}
	for i := range 250 { // with those above, more than one list holds
		if got := read(fmt.Sprint("out", i)); got != fmt.Sprint(i) {
			t.Errorf("out%d holds %q", i, got)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "tool")); err != nil || info.Mode() != 0o755 {
		t.Errorf("the mode of a program that the code made: %v, %v", info, err)
	}
	if got := read("café \U0001f40d"); got != "named" {
		t.Errorf("a file with a name of its own holds %q", got)
	}

	// A mode by itself is a change; a removal by the host reaches the code.
	must(t, s.Workspace().Remove("out0"))
	run(`import os
os.chmod("tool", 0o700); assert not os.path.exists("out0") and os.path.exists("out1")`)
	if info, err := os.Stat(filepath.Join(dir, "tool")); err != nil || info.Mode() != 0o700 {
		t.Errorf("after chmod: %v, %v", info, err)
	}

	// After its interpreter was killed, and after its instance is gone.
	r, err := s.Run(t.Context(), orchestrator.RunRequest{
		Source: []byte("with open('half', 'w') as f: f.write('done')\nimport os\nos.kill(os.getpid(), 9)"),
	}, nil)
	if must(t, err); r.Cause != sandbox.Killed || len(r.NotCarried) > 0 || read("half") != "done" {
		t.Errorf("cause %s (%s)", r.Cause, r.Detail)
	}
	if _, err := s.Run(t.Context(), orchestrator.RunRequest{Source: []byte("1"), Once: true}, nil); err != nil {
		t.Error(err)
	}
	run(`assert open("half").read() == "done"`)

	interruptTransfer(t, s)
}

// interruptTransfer wants an interrupt to end a run whose files are still on their way.
func interruptTransfer(t *testing.T, s *orchestrator.Session) {
	t.Helper()
	_, err := s.Workspace().Put("large", io.LimitReader(zeros{}, 64<<20), 0)
	must(t, err)
	type answer struct {
		r   orchestrator.Result
		err error
	}
	done := make(chan answer, 1)
	go func() {
		r, err := s.Run(context.Background(), orchestrator.RunRequest{Source: []byte("print(1)")}, nil)
		done <- answer{r, err}
	}()
	for s.Interrupt(context.Background()) != nil {
		time.Sleep(time.Millisecond) // until the run has the interpreter
	}
	began := time.Now()
	a := <-done
	if must(t, a.err); a.r.Cause != sandbox.Interrupted {
		t.Errorf("cause %s (%s)", a.r.Cause, a.r.Detail)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the interrupt took %s", took)
	}
	r, err := s.Run(t.Context(), orchestrator.RunRequest{Source: []byte("import os\nassert os.path.getsize('large') == 64 << 20"), Timeout: time.Minute}, nil)
	if must(t, err); r.Cause != sandbox.OK {
		t.Errorf("the run after it: cause %s (%s): %+v", r.Cause, r.Detail, r.Exception)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestDetachedStall: files on their way to an engine whose connection stands still are
// given up, and the run says that its backend was lost.
func TestDetachedStall(t *testing.T) {
	socket := engineSocket(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	front, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	forward(t, l, socket)
	narrow(t, front, l.Addr().String(), 20<<20)
	t.Setenv("DOCKER_HOST", "tcp://"+front.Addr().String())
	s, err := liveBrig(t, sandbox.Docker).Open(t.Context(), orchestrator.SessionOptions{})
	must(t, err)
	defer func() { must(t, s.Close(context.Background())) }()
	_, err = s.Workspace().Put("large", io.LimitReader(zeros{}, 64<<20), 0)
	must(t, err)
	began := time.Now()
	r, err := s.Run(t.Context(), orchestrator.RunRequest{Source: []byte("print(1)")}, nil)
	if must(t, err); r.Cause != sandbox.BackendLost || !strings.Contains(r.Detail, `"large"`) {
		t.Errorf("cause %s (%s)", r.Cause, r.Detail)
	}
	if took := time.Since(began); took > 45*time.Second {
		t.Errorf("it took %s", took)
	}
}

// narrow passes on so many bytes of each connection and then stands still.
func narrow(t *testing.T, l net.Listener, to string, most int64) {
	t.Helper()
	over := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			engine, err := net.Dial("tcp", to)
			if err != nil {
				t.Errorf("reach the engine: %v", err)
				client.Close()
				continue
			}
			work.Go(func() { // both ends are open until brig, or the test, ends
				_, _ = io.CopyN(engine, client, most)
				if _, err := client.Read(make([]byte, 1)); err == nil {
					<-over
				}
				engine.Close()
			})
			work.Go(func() { pump(client, engine) })
			work.Go(func() {
				<-over
				client.Close()
				engine.Close()
			})
		}
	})
	t.Cleanup(func() { l.Close(); close(over); work.Wait() })
}
