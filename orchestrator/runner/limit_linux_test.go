package runner

import (
	"syscall"
	"testing"
	"time"

	"brig/orchestrator/wire"
)

// TestLimit: a run that nobody ends is ended by its runner, by force and with all
// that it started; one with a limit that it keeps is not, nor is the next one.
func TestLimit(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		r := start(t, p)
		got := r.runAs(wire.Run{Limit: 300 * time.Millisecond, Source: []byte(`
import os, signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
child = os.fork()
if child: print(child, flush=True)
while True: pass`)})
		if got.err != nil || got.Outcome != wire.OutcomeSignal || !got.Hard || got.Exceeded != wire.ExceededTime {
			t.Fatalf("%s, hard %t, exceeded %q", got, got.Hard, got.Exceeded)
		}
		if child := numbers(got.out); len(child) != 1 || !gone(child[0]) {
			t.Errorf("the child %v is still there", child)
		}
		if got.Elapsed < 300*time.Millisecond {
			t.Errorf("it ended after %v", got.Elapsed)
		}
		if got := r.runAs(wire.Run{Limit: time.Minute, Source: []byte("print(1)")}); got.Outcome != wire.OutcomeOK || got.Hard || got.Exceeded != "" {
			t.Errorf("a run within its limit: %s", got)
		}
		if got := r.ok("import time; time.sleep(0.5)"); got.Hard { // the limit of the first one is not its own
			t.Errorf("%s", got)
		}
	})
}

// TestSilence: a runner that hears nothing ends with all it runs, although its input
// is open. Any frame is enough to keep it.
func TestSilence(t *testing.T) {
	const silence = 2 * time.Second // longer than the look around between hello and ready takes
	each(t, func(t *testing.T, p interpreter) {
		h := hello()
		h.Silence = silence
		r := startWith(t, p, h)
		run := r.background("import os\nprint(os.getpid(), flush=True)\nwhile True: pass")
		run.until(t, "\n")
		for begin := time.Now(); time.Since(begin) < 2*silence; time.Sleep(silence / 10) {
			if err := r.Ping(limited(t)); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		r.waited()
		if took := time.Since(began); took < silence/2 {
			t.Errorf("it ended after %v", took)
		}
		if pid := numbers(run.text())[0]; !gone(pid) {
			t.Errorf("the code goes on as process %d", pid)
		}
		<-run.done

		r = startWith(t, p, h) // a frame that waited while it was stopped is one as well
		if err := r.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		pinged := make(chan error, 1)
		go func() { pinged <- r.Ping(limited(t)) }()
		time.Sleep(silence + silence/2)
		if err := r.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if err := <-pinged; err != nil {
			t.Errorf("a ping that waited: %v", err)
		}
	})
}

// TestDisplaysExceeded: code that gets around the bound of its own interpreter ends
// at the supervisor's, which says so.
func TestDisplaysExceeded(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		r := start(t, p)
		got := r.run(`
import gc, sys
found = [o for o in gc.get_objects() if type(o).__name__ == "Displays"]
for n in range(12_000):
    for o in found: o._count = 0
    display(n)`)
		if got.err != nil || got.Outcome != wire.OutcomeSignal || got.Exceeded != wire.ExceededDisplays || got.Displays != wire.MaxDisplays {
			t.Errorf("%s, exceeded %q, %d displays", got, got.Exceeded, got.Displays)
		}
		r.ok("1")
	})
}
