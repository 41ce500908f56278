package runner

import (
	"errors"
	"strings"
	"testing"
	"time"

	"brig/orchestrator/wire"
)

// TestSoftInterrupt: whatever the main thread waits for, it is interrupted,
// and the variables are kept.
func TestSoftInterrupt(t *testing.T) {
	cases := map[string]string{
		"sleep":      "import time; time.sleep(1000)",
		"spin":       "while True: pass",
		"read":       "import os; os.read(os.pipe()[0], 1)",
		"lock":       "import threading; l = threading.Lock(); l.acquire(); l.acquire()",
		"join":       "import threading, time; t = threading.Thread(target=time.sleep, args=(3,), daemon=True); t.start(); t.join()",
		"queue":      "import queue; queue.Queue().get()",
		"await":      "import asyncio; await asyncio.sleep(1000)",
		"await spin": "import asyncio; await asyncio.sleep(0)\nwhile True: pass",
		"asyncio":    "import asyncio; asyncio.run(asyncio.sleep(1000))",
		"select":     "import select; select.select([], [], [])",
		"signal":     "import signal; signal.pause()",
		"drop":       "class D:\n  def __del__(self):\n    while True: pass\nD()\nwhile True: pass",
		"repr":       "class R:\n  def __repr__(self):\n    while True: pass\nR()",
		"import":     "import slow",
		"handler":    "import signal; signal.signal(signal.SIGTERM, print)\nwhile True: pass",
		"output":     "while True: print('x' * 1000)",
		"flush":      "import sys\nclass Odd:\n  def flush(self):\n    while True: pass\nsys.stdout = Odd()",
		"child":      "import subprocess; subprocess.run(['sleep', '1000'])",
	}
	each(t, func(t *testing.T, p interpreter) {
		r := start(t, p)
		r.ok("kept = 1")
		if err := r.put("slow.py", "import time; time.sleep(1000)"); err != nil {
			t.Fatal(err)
		}
		for name, source := range cases {
			run := r.background("print('ready', flush=True)\n" + source)
			run.until(t, "ready")
			r.interrupt(run, wire.Soft, true)
			got := <-run.done
			if got.err != nil || got.Outcome != wire.OutcomeInterrupted || got.State != wire.StateKept || got.Hard {
				t.Errorf("%s: %s", name, got)
			}
			if e := got.Exception; e == nil || e.Name != "KeyboardInterrupt" || strings.Contains(e.Traceback, "brigrunner") {
				t.Errorf("%s: exception %+v", name, e)
			}
			r.ok("import sys; sys.stdout = sys.__stdout__; kept") // a second interrupt would show here
		}
	})
}

// TestInterruptHeeded: code that catches the interrupt and ends in its own way is believed.
func TestInterruptHeeded(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		r := start(t, p)
		for _, c := range []struct {
			source  string
			outcome wire.Outcome
			out     string
		}{
			{"except KeyboardInterrupt: print('caught')", wire.OutcomeOK, "caught\n"},
			{"except KeyboardInterrupt: raise SystemExit(4)", wire.OutcomeExit, ""},
			{"except KeyboardInterrupt: raise ValueError", wire.OutcomeException, ""},
			{"finally: print('cleaned')", wire.OutcomeInterrupted, "cleaned\n"},
		} {
			run := r.background("import time\ntry:\n  print('ready')\n  time.sleep(1000)\n" + c.source)
			run.until(t, "ready")
			r.interrupt(run, wire.Soft, false)
			if got := <-run.done; got.Outcome != c.outcome || got.out != "ready\n"+c.out || got.State != wire.StateKept {
				t.Errorf("%s: %s", c.source, got)
			}
		}
	})
}

// TestInterruptTooLate: an interrupt of a run that has ended, or has not begun, does nothing.
func TestInterruptTooLate(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		r := start(t, p)
		first := r.ok("import time")
		for _, id := range []wire.RunID{first.Run, "r99", "other"} {
			for _, level := range []wire.Level{wire.Soft, wire.Hard} {
				if err := r.Interrupt(limited(t), id, level, true); !errors.Is(err, wire.ErrNotRunning) {
					t.Errorf("interrupt of %s: %v", id, err)
				}
			}
		}
		run := r.background("print('ready')\ntime.sleep(0.3)\nprint('end')")
		run.until(t, "ready")
		if err := r.Interrupt(limited(t), first.Run, wire.Soft, true); !errors.Is(err, wire.ErrNotRunning) {
			t.Errorf("interrupt of the run before: %v", err)
		}
		if got := <-run.done; got.Outcome != wire.OutcomeOK || got.out != "ready\nend\n" {
			t.Errorf("%s", got)
		}
	})
}

// TestInterruptStorm sends interrupts around the ends of short runs: each hits
// its own run or none.
func TestInterruptStorm(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		r := start(t, p)
		r.ok("kept = 1")
		counts := make(map[string]int)
		for i := range 200 {
			run := r.background(sprintf("for i in range(%d): pass", i*300))
			for i%2 == 0 && len(run.done) == 0 && time.Now().UnixNano()%4 != 0 { //nolint:revive // a moment, more or less
			}
			err := r.Interrupt(limited(t), run.id, wire.Soft, i%3 == 0)
			got := <-run.done
			switch {
			case got.err != nil || got.State != wire.StateKept:
				t.Fatalf("run %d: %s", i, got)
			case err != nil && (!errors.Is(err, wire.ErrNotRunning) || got.Outcome != wire.OutcomeOK):
				t.Fatalf("run %d: interrupt %v, %s", i, err, got)
			case err == nil && got.Outcome != wire.OutcomeInterrupted && got.Outcome != wire.OutcomeOK:
				t.Fatalf("run %d: %s", i, got)
			}
			counts[string(got.Outcome)]++
			r.ok("kept")
		}
		t.Logf("%v", counts)
	})
}

// TestHardInterrupt: code that refuses to end is killed with everything it
// started, however that tried to get away.
func TestHardInterrupt(t *testing.T) {
	const away = `
import os, signal, time
def daemon(n):
    if os.fork() == 0:
        os.setsid()
        if os.fork(): os._exit(0)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("daemon", os.getpid(), flush=True)
        time.sleep(1000)
        os._exit(0)
for n in range(3): daemon(n)
`
	cases := map[string]string{
		"deaf":    "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('ready')\nwhile True: pass",
		"masked":  "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\nprint('ready')\nwhile True: pass",
		"away":    away + "while len(os.listdir('/proc/self/task')) < 0: pass\nprint('ready', flush=True)\nwhile True: pass",
		"chains":  "import os\nfor i in range(4):\n  if os.fork() == 0:\n    while True:\n      if os.fork(): os._exit(0)\nprint('ready', flush=True)\nwhile True: pass",
		"stopped": "import os, signal, time\nif os.fork() == 0: time.sleep(1000)\nprint('ready', flush=True)\nos.kill(os.getpid(), signal.SIGSTOP)",
		"traced":  "import os, threading, time\nfor i in range(4): threading.Thread(target=time.sleep, args=(1000,)).start()\nprint('ready', flush=True)\nwhile True: pass",
	}
	each(t, func(t *testing.T, p interpreter) {
		r := start(t, p)
		for name, source := range cases {
			t.Run(name, func(t *testing.T) {
				r.ok("kept = 1")
				run := r.background(source)
				run.until(t, "ready")
				if name == "away" {
					await(t, "the daemons", func() bool { return len(numbers(run.text())) == 3 })
				}
				r.interrupt(run, wire.Hard, true)
				got := <-run.done
				if got.err != nil || got.Outcome != wire.OutcomeSignal || got.Signal != 9 || !got.Hard || got.State != wire.StateLost {
					t.Fatalf("%s", got)
				}
				for _, pid := range numbers(got.out) {
					if !gone(pid) {
						t.Errorf("process %d is still there", pid)
					}
				}
				if name == "away" && got.Swept != 3 {
					t.Errorf("swept %d", got.Swept)
				}
				if processes := r.processes(); processes != 2 {
					t.Errorf("%d processes are left, want supervisor and worker", processes)
				}
				if after := r.run("kept"); after.Exception == nil || after.Exception.Name != "NameError" {
					t.Errorf("afterwards: %s", after)
				}
			})
		}
	})
}

func (r *rig) processes() int {
	r.t.Helper()
	var usage wire.UsageBody
	r.call(wire.OpUsage, wire.ControlArgs{}, &usage)
	return usage.Processes
}

// TestSweep: a soft interrupt with sweep ends what that run had started, and
// leaves alone what was there before.
func TestSweep(t *testing.T) {
	const start2 = "import subprocess, os, time\n%s = [subprocess.Popen(['sleep', '1000'], start_new_session=True) for i in range(2)]\nprint(*(p.pid for p in %[1]s), flush=True)\n"
	each(t, func(t *testing.T, p interpreter) {
		r := start(t, p)
		earlier := numbers(r.ok(sprintf(start2, "earlier")).out)
		run := r.background(sprintf(start2, "later") + `
if os.fork() == 0:
    os.setsid()
    if os.fork(): os._exit(0)
    print(os.getpid(), "ready", flush=True)
    time.sleep(1000)
    os._exit(0)
time.sleep(1000)`)
		run.until(t, "ready")
		r.interrupt(run, wire.Soft, true)
		got := <-run.done
		later := numbers(got.out)
		if got.Outcome != wire.OutcomeInterrupted || len(later) != 3 || len(earlier) != 2 {
			t.Fatalf("%s", got)
		}
		// Those it did not wait for stay zombies of the worker until it asks.
		r.ok("for p in later: p.wait()\nwhile True:\n  try: os.waitpid(-1, os.WNOHANG)\n  except ChildProcessError: break\n  else: break")
		for _, pid := range later {
			if !gone(pid) {
				t.Errorf("process %d, started by the run, is still there", pid)
			}
		}
		for _, pid := range earlier {
			if gone(pid) {
				t.Errorf("process %d, started before the run, is gone", pid)
			}
		}
		if got := r.ok("[p.poll() for p in earlier]"); got.part("text/plain") != "[None, None]" {
			t.Errorf("%s", got.part("text/plain"))
		}
	})
}

// TestInterruptOnce: a whole program is interrupted as one is by control-C.
func TestInterruptOnce(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		r := start(t, p)
		run := &running{id: r.nextID(), done: make(chan *result, 1), seen: make(chan struct{}, 1)}
		ready := make(chan struct{})
		go func() {
			source := "import atexit, time\natexit.register(print, 'bye')\nprint('ready')\ntime.sleep(1000)"
			run.done <- r.runEach(wire.Run{ID: run.id, Source: []byte(source), Once: true}, func(e wire.Event) {
				if string(e.Data) == "ready\n" {
					close(ready)
				}
			})
		}()
		<-ready
		r.interrupt(run, wire.Soft, false)
		if got := <-run.done; got.err != nil || got.Outcome != wire.OutcomeInterrupted || got.State != wire.StateEnded || got.out != "ready\nbye\n" {
			t.Errorf("%s", got)
		}
	})
}
