package runner

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"brig/orchestrator/wire"
)

const lease = 10 * time.Minute

// TestResume: a session is the same after its connection was lost, again and again.
func TestResume(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		d := keep(t, p, lease)
		if !d.ready.Resumable || d.ready.Observed.PID != 1 {
			t.Fatalf("ready: %+v", d.ready)
		}
		d.ok("import threading; kept = []; lock = threading.Lock(); lock.acquire();")
		if err := d.put("file", "content"); err != nil {
			t.Fatal(err)
		}
		for n := range 3 {
			d.ok(sprintf("kept.append(%d)", n))
			d.lose()
			got := d.resume(unlimited, unlimited)
			if got.Run != "" || got.Ready.Runner != Hash() || !got.Ready.Resumable {
				t.Errorf("resumed: %+v", got)
			}
			o, before := got.Ready.Observed, d.ready.Observed
			if o.PID != 1 || o.Dumpable != 0 || o.Bounds != before.Bounds || len(o.Attempts) != len(before.Attempts) || o.Status["Seccomp"] != before.Status["Seccomp"] {
				t.Errorf("observed anew: %+v\nbefore: %+v", o, before)
			}
			for name, outcome := range before.Attempts {
				if o.Attempts[name] != outcome {
					t.Errorf("attempt %s: %s, before %s", name, o.Attempts[name], outcome)
				}
			}
			if out := d.ok("print(len(kept), lock.locked())").out; out != sprintf("%d True\n", n+1) {
				t.Errorf("after %d: %s", n+1, out)
			}
			if text, err := d.get("file"); text != "content" {
				t.Errorf("the file: %q, %v", text, err)
			}
		}
	})
}

// TestResumeCutEverywhere cuts a conversation after any byte of either direction
// and takes it up again, with the same interpreter all the time.
func TestResumeCutEverywhere(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		d := keep(t, p, lease)
		d.ok("kept = 'kept'")
		// What is said until the end, to know how long it is.
		talk := func() error {
			ctx := limited(t)
			_, err := d.Call(ctx, wire.Control{Op: wire.OpPut, Args: wire.ControlArgs{Path: "f"}}, strings.NewReader("content"), nil)
			if err != nil {
				return err
			}
			d.runs++
			exit, err := d.Run(ctx, wire.Run{ID: wire.RunID(sprintf("c%d", d.runs)), Source: []byte("print('printed'); kept")}, func(wire.Event) error { return nil })
			if err == nil && exit.Outcome != wire.OutcomeOK {
				err = errors.New("the run failed")
			}
			if err != nil {
				return err
			}
			_, err = d.Call(ctx, wire.Control{Op: wire.OpGet, Args: wire.ControlArgs{Path: "f"}}, nil, io.Discard)
			return err
		}
		measure := func(out, in int) (int, int, error) {
			d.lose()
			d.resume(unlimited, unlimited) // its marks and its report are not cut
			a := d.cut(out, in)
			err := talk()
			d.mu.Lock()
			defer d.mu.Unlock()
			return out - a.outLeft, in - a.inLeft, err
		}
		out, in, err := measure(1<<20, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		step := 1
		if testing.Short() || p.minor != wanted[len(wanted)-1] {
			step = 41
		}
		settled := func(what string, at int, resumed wire.Resumed) {
			if resumed.Run != "" {
				_ = d.Interrupt(limited(t), resumed.Run, wire.Soft, true)
				if _, err := d.Finish(limited(t), resumed.Run); err != nil {
					t.Fatalf("%s cut at %d: finish: %v", what, at, err)
				}
			}
			if got := d.ok("print(kept)"); got.out != "kept\n" || got.late != "" {
				t.Fatalf("%s cut at %d: %s, late %q", what, at, got, got.late)
			}
		}
		for at := 1; at < out; at += step {
			_, _, err := measure(at, 1<<20)
			if err == nil {
				t.Errorf("output cut at %d of %d: nobody noticed", at, out)
			}
			d.lose()
			settled("output", at, d.resume(unlimited, unlimited))
		}
		for at := 1; at < in; at += step {
			_, _, err := measure(1<<20, at)
			if err == nil {
				t.Errorf("input cut at %d of %d: nobody noticed", at, in)
			}
			d.lose()
			settled("input", at, d.resume(unlimited, unlimited))
		}
		left, err := filepath.Glob(filepath.Join(d.workspace, ".brig-put-*"))
		if err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
}

// TestResumeRunning: a run that goes on is known and can be ended; what it prints
// after the cut is in its log and nowhere else.
func TestResumeRunning(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		for name, c := range map[string]struct {
			source string
			level  wire.Level
			state  wire.State
		}{
			"soft":    {"while True: print('tick', flush=True); time.sleep(0.001)", wire.Soft, wire.StateKept},
			"hard":    {"while True:\n  try:\n    while True: os.write(1, b'tick\\n' * 20_000)\n  except KeyboardInterrupt: pass", wire.Hard, wire.StateLost},
			"display": {"while True: display('tick ' * 2000); print('tick'); time.sleep(0.001)", wire.Soft, wire.StateKept},
		} {
			t.Run(name, func(t *testing.T) {
				d := keep(t, p, lease)
				d.ok("import os, threading, time; kept = 1")
				run := d.background(c.source)
				run.until(t, "tick\ntick\n")
				d.lose()
				if got := <-run.done; got.err == nil {
					t.Errorf("a run whose connection was lost: %s", got)
				}
				resumed := d.resume(unlimited, unlimited)
				if resumed.Run != run.id {
					t.Fatalf("resumed with run %q, want %q", resumed.Run, run.id)
				}
				if got := d.run("1"); !errors.Is(got.err, wire.ErrBusy) {
					t.Errorf("another run beside it: %s", got)
				}
				if _, err := d.Call(limited(t), wire.Control{Op: wire.OpVariables}, nil, nil); code(err) != wire.CodeBusy {
					t.Errorf("variables beside it: %v", err)
				}
				log := filepath.Join(d.workspace, ".brig", "log", string(run.id)+".log")
				size := func() int64 {
					info, err := os.Stat(log)
					if err != nil {
						return 0
					}
					return info.Size()
				}
				at := size()
				await(t, "more output", func() bool { return size() > at || at == logged })
				if err := d.Interrupt(limited(t), run.id, c.level, true); err != nil {
					t.Fatal(err)
				}
				exit, err := d.Finish(limited(t), run.id)
				if err != nil || exit.State != c.state || c.level == wire.Soft && exit.Outcome != wire.OutcomeInterrupted {
					t.Fatalf("finish: %+v, %v", exit, err)
				}
				if exit.Log == nil || exit.Log.Bytes+exit.Log.Dropped != exit.Stdout.Total || exit.Stdout.Dropped == 0 {
					t.Errorf("log %+v, stdout %+v", exit.Log, exit.Stdout)
				} else if log := d.file(exit.Log.Path); !bytes.HasPrefix(log, []byte("tick\ntick\n")) || int64(len(log)) != exit.Log.Bytes {
					t.Errorf("the log has %d bytes: %.40q", len(log), log)
				}
				got := d.run("print('next')")
				if got.out != "next\n" || got.late != "" || len(got.displays) > 0 || got.State != wire.StateKept && c.state == wire.StateKept {
					t.Errorf("%s, late %q", got, got.late)
				}
				if kept := d.run("kept").Outcome == wire.OutcomeOK; kept != (c.state == wire.StateKept) {
					t.Errorf("the variable was kept: %t", kept)
				}
			})
		}
	})
}

// TestResumeLateOutput: threads of an earlier conversation print into nothing.
func TestResumeLateOutput(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		d := keep(t, p, lease)
		d.ok("import os, threading, time\ngo = threading.Event()\ndef late():\n  go.wait(); os.write(1, b'late'); open('written', 'w').close()\nthreading.Thread(target=late).start()")
		d.ok("threading.Timer(0.05, go.set).start()")
		d.lose()
		await(t, "late output", func() bool { _, err := os.Stat(filepath.Join(d.workspace, "written")); return err == nil })
		d.resume(unlimited, unlimited)
		if got := d.ok("print('next')"); got.out != "next\n" || got.late != "" {
			t.Errorf("%s, late %q", got, got.late)
		}
	})
}

// TestResumeOpenCalls: what a call was in the middle of is undone, and its answer
// is not taken for that of another.
func TestResumeOpenCalls(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		d := keep(t, p, lease)
		d.ok("open('large', 'wb').write(bytes(8 << 20))\nclass Slow:\n  def __reduce__(self):\n    import time; time.sleep(0.5); return int, (7,)\nslow = Slow(); kept = 5")
		for name, call := range map[string]func(ctx context.Context) error{
			"put": func(ctx context.Context) error {
				r, w := io.Pipe()
				defer w.Close()
				go func() { _, _ = w.Write(make([]byte, 1<<20)) }()
				_, err := d.Call(ctx, wire.Control{Op: wire.OpPut, Args: wire.ControlArgs{Path: "put"}}, r, nil)
				return err
			},
			"get, credit exhausted": func(ctx context.Context) error {
				r, w := io.Pipe()
				stop := context.AfterFunc(ctx, func() { _ = r.Close() })
				defer stop()
				go func() { _, _ = io.CopyN(io.Discard, r, 100) }() // and then no more
				_, err := d.Call(ctx, wire.Control{Op: wire.OpGet, Args: wire.ControlArgs{Path: "large"}}, nil, w)
				return err
			},
			"checkpoint": func(ctx context.Context) error {
				_, err := d.Call(ctx, wire.Control{Op: wire.OpCheckpoint}, nil, io.Discard)
				return err
			},
			"restore": func(ctx context.Context) error {
				r, w := io.Pipe()
				defer w.Close()
				go func() { _, _ = w.Write(make([]byte, 1<<20)) }()
				_, err := d.Call(ctx, wire.Control{Op: wire.OpRestore}, r, nil)
				return err
			},
		} {
			t.Run(name, func(t *testing.T) {
				d.t = t
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- call(ctx) }()
				switch name {
				case "put":
					await(t, "the beginning of the file", func() bool {
						found, _ := filepath.Glob(filepath.Join(d.workspace, ".brig-put-*"))
						return len(found) == 1
					})
				default:
					time.Sleep(50 * time.Millisecond) // a moment: how far it came is not important
				}
				d.lose()
				cancel()
				if err := <-ended; err == nil {
					t.Error("the call succeeded")
				}
				d.resume(unlimited, unlimited)
				// The names and streams of the calls that follow are those of the ones before.
				d.call(wire.OpPing, wire.ControlArgs{}, nil)
				if text, err := d.get("put"); code(err) != wire.CodeNotFound {
					t.Errorf("half a file: %d bytes, %v", len(text), err)
				}
				if text, err := d.get("large"); err != nil || len(text) != 8<<20 {
					t.Errorf("a file: %d bytes, %v", len(text), err)
				}
				await(t, "the interpreter to be free", func() bool {
					_, err := d.Call(limited(t), wire.Control{Op: wire.OpVariables}, nil, nil)
					if err != nil && code(err) != wire.CodeBusy {
						t.Fatal(err)
					}
					return err == nil
				})
				if got := d.ok("print(kept)"); got.out != "5\n" {
					t.Errorf("%s", got)
				}
				if found, err := filepath.Glob(filepath.Join(d.workspace, ".brig-put-*")); err != nil || len(found) > 0 {
					t.Errorf("left behind: %v, %v", found, err)
				}
			})
		}
	})
}

// TestResumeWrongSecret: who does not know it is not answered, and takes nothing
// from who does.
func TestResumeWrongSecret(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		d := keep(t, p, lease)
		d.ok("kept = 1")
		d.lose()
		for range 2 {
			a := d.attach(unlimited, unlimited)
			d.knock()
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			_, _, err := wire.Resume(ctx, a.r, a, wire.NewSecret(), wire.PeerOptions{Close: a.close})
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("resumed with another secret: %v", err)
			}
		}
		d.resume(unlimited, unlimited)
		d.ok("kept")
	})
}

// TestResumeHurried: a brig that dies while it comes back does not harm the next,
// whatever of its attempt is still to be read.
func TestResumeHurried(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		d := keep(t, p, lease)
		d.ok("kept = 1")
		d.lose()
		if err := d.cmd.Process.Signal(syscall.SIGSTOP); err != nil { // so that both attempts wait to be read
			t.Fatal(err)
		}
		a := d.attach(unlimited, unlimited)
		d.knock()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, _, err := wire.Resume(ctx, a.r, a, d.secret, wire.PeerOptions{Close: a.close}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a stopped runner answered: %v", err)
		}
		go func() {
			time.Sleep(50 * time.Millisecond) // until the second stands behind the first
			_ = d.cmd.Process.Signal(syscall.SIGCONT)
		}()
		d.resume(unlimited, unlimited)
		d.ok("kept")
	})
}

// TestKnockFromInside: user code cannot knock, whatever it claims to be.
func TestKnockFromInside(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		d := keep(t, p, lease)
		got := d.ok(`
import ctypes, os, signal, struct
libc = ctypes.CDLL(None, use_errno=True)
os.kill(1, signal.SIGUSR1)
def claim(code):
    info = struct.pack('iiiiII', signal.SIGUSR1, 0, code, 0, 0, 0).ljust(128, b'\0')
    return libc.syscall({'x86_64': 129, 'aarch64': 138}[os.uname().machine], 1, signal.SIGUSR1, info)  # rt_sigqueueinfo
print(claim(0), claim(-1), claim(0x80), os.getppid())
pid = os.fork()
if pid == 0:
    os.setsid(); os.kill(1, signal.SIGUSR1); os._exit(0)
os.wait();`)
		if got.out != "-1 0 -1 1\n" { // the kernel lets nobody pass for kill or for itself
			t.Errorf("%s", got)
		}
		for range 20 {
			d.ok("os.kill(1, signal.SIGUSR1)")
		}
		// The control: from outside it is heard, and the conversation is over.
		d.knock()
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if err := d.Ping(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a ping after a knock: %v", err)
		}
		d.lose()
		d.resume(unlimited, unlimited)
		d.ok("1")
	})
}

// TestKnockSignalForUserCode: for user code and what it starts, the signal is what it always is.
func TestKnockSignalForUserCode(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		d := keep(t, p, lease)
		const look = "import signal; print(signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL, signal.SIGUSR1 in signal.pthread_sigmask(signal.SIG_BLOCK, []))"
		got := d.ok(look + "\nimport subprocess, sys; print(subprocess.run([sys.executable, '-I', '-c', \"" + look + "\"], stdout=-1).stdout.decode(), end='')")
		if got.out != "True False\nTrue False\n" {
			t.Errorf("%s", got)
		}
		if got := d.run("import os; os.kill(os.getpid(), signal.SIGUSR1)"); got.Outcome != wire.OutcomeSignal || got.Signal != int(syscall.SIGUSR1) {
			t.Errorf("%s", got)
		}
		if got := d.run(look); got.out != "True False\n" { // in the worker that replaces it
			t.Errorf("%s", got)
		}
	})
}
