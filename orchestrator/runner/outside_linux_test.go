package runner

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"brig/orchestrator/wire"
)

// TestEndFromInside: user code cannot ask the first process to end, so it cannot make
// its own end look like a lost connection, or take earlier output with it.
func TestEndFromInside(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		for name, number := range map[string]syscall.Signal{"SIGTERM": syscall.SIGTERM, "SIGHUP": syscall.SIGHUP} {
			t.Run(name, func(t *testing.T) {
				d := keep(t, p, 0)
				got := d.ok("import fcntl, os, signal\nprint('before', flush=True)\nnumber = signal." + name + `
for _ in range(100): os.kill(1, number)
pid = os.fork()
if pid == 0:
    os.setsid(); os.kill(1, number); os._exit(0)
os.waitpid(pid, 0)
# The kernel sends this one, on behalf of a pipe.
reading, writing = os.pipe()
fcntl.fcntl(reading, fcntl.F_SETOWN, 1)
fcntl.fcntl(reading, getattr(fcntl, 'F_SETSIG', 10), number)
fcntl.fcntl(reading, fcntl.F_SETFL, fcntl.fcntl(reading, fcntl.F_GETFL) | os.O_ASYNC)
os.write(writing, b'x')
print('after')`)
				if got.out != "before\nafter\n" {
					t.Errorf("%s", got)
				}
				d.ok("1")
				// The control: from outside it is heeded, right after one from inside too, and
				// what was printed before arrives.
				const size = 4 << 10
				run := d.background("sys = __import__('sys'); sys.stdout.write('x' * (4 << 10)); sys.stdout.flush()\nos.kill(1, number)\nprint('ready', flush=True)\nwhile True: pass")
				run.until(t, "ready")
				// The kernel holds one signal of a number at a time: while the one from inside
				// waits to be looked at, one from outside is the same. Whoever means it asks again.
				for asked := 0; asked < 10; asked++ {
					if err := d.cmd.Process.Signal(number); err != nil && !errors.Is(err, os.ErrProcessDone) {
						t.Fatal(err)
					}
					select {
					case <-d.ended:
						asked = 10
					case <-time.After(2 * time.Second):
					}
				}
				if status := d.waited(); status != 0 {
					t.Errorf("exit status %d", status)
				}
				if got := <-run.done; got.err == nil || strings.Count(got.out, "x") != size {
					t.Errorf("%d bytes: %v", len(got.out), got.err)
				}
			})
		}
	})
}

// TestLastWords: what was printed just before the end is read, and goes out.
func TestLastWords(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		d := keep(t, p, 0)
		// The last output is written while the supervisor stands still, so it is read at the end or never.
		run := d.background("import os, time\nprint('ready', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.005)\nos.write(1, b'last words'); open('said', 'w').close()\nwhile True: time.sleep(1)")
		run.until(t, "ready")
		if err := d.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(d.workspace, "go"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		await(t, "the last words", func() bool { _, err := os.Stat(filepath.Join(d.workspace, "said")); return err == nil })
		for _, number := range []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT} {
			if err := d.cmd.Process.Signal(number); err != nil {
				t.Fatal(err)
			}
		}
		if status := d.waited(); status != 0 {
			t.Errorf("exit status %d", status)
		}
		if got := <-run.done; got.err == nil || !strings.HasSuffix(got.out, "last words") {
			t.Errorf("%s", got)
		}
	})
}

// TestEndSignalForUserCode: for user code the signals are what they always are.
func TestEndSignalForUserCode(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		d := keep(t, p, 0)
		for _, number := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
			name := map[syscall.Signal]string{syscall.SIGTERM: "SIGTERM", syscall.SIGHUP: "SIGHUP"}[number]
			look := "import signal; print(signal.getsignal(signal." + name + ") == signal.SIG_DFL, signal.pthread_sigmask(signal.SIG_BLOCK, []) == set())"
			if got := d.run(look); got.out != "True True\n" {
				t.Errorf("%s", got)
			}
			if got := d.run("import os, signal; os.kill(os.getpid(), signal." + name + ")"); got.Outcome != wire.OutcomeSignal || got.Signal != int(number) {
				t.Errorf("%s", got)
			}
		}
	})
}
