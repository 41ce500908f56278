package runner

import (
	"fmt"
	"strings"
	"testing"

	"brig/orchestrator/wire"
)

// TestEnds: how a run ends, what its account says, and what is left of the variables.
func TestEnds(t *testing.T) {
	cases := []struct {
		source  string
		outcome wire.Outcome
		status  int
		signal  int
		state   wire.State
		errout  string
	}{
		{"import sys; sys.exit()", wire.OutcomeExit, 0, 0, wire.StateKept, ""},
		{"import sys; sys.exit(3)", wire.OutcomeExit, 3, 0, wire.StateKept, ""},
		{"import sys; sys.exit(137)", wire.OutcomeExit, 137, 0, wire.StateKept, ""},
		{"import sys; sys.exit(-1)", wire.OutcomeExit, 255, 0, wire.StateKept, ""},
		{"import sys; sys.exit(True)", wire.OutcomeExit, 1, 0, wire.StateKept, ""},
		{"import sys; sys.exit('why')", wire.OutcomeExit, 1, 0, wire.StateKept, "why\n"},
		{"exit(4)", wire.OutcomeExit, 4, 0, wire.StateKept, ""},
		{"raise SystemExit(5)", wire.OutcomeExit, 5, 0, wire.StateKept, ""},
		{"import os; os._exit(0)", wire.OutcomeExit, 0, 0, wire.StateLost, ""},
		{"import os; os._exit(137)", wire.OutcomeExit, 137, 0, wire.StateLost, ""},
		{"import os; os.kill(os.getpid(), 9)", wire.OutcomeSignal, 0, 9, wire.StateLost, ""},
		{"import os; os.kill(os.getpid(), 15)", wire.OutcomeSignal, 0, 15, wire.StateLost, ""},
		{"import os; os.execvp('sh', ['sh', '-c', 'echo from sh >&2; exit 7'])", wire.OutcomeExit, 7, 0, wire.StateLost, "from sh\n"},
		{"import os\nif os.fork() == 0: os._exit(9)\nos.wait()", wire.OutcomeOK, 0, 0, wire.StateKept, ""},
		{"import os, sys\nif os.fork() == 0: sys.stderr.write('child\\n')\nelse: os.wait()", wire.OutcomeOK, 0, 0, wire.StateKept, "child\n"},
		{"import os\npid = os.fork()\nif pid == 0: exit(6)\nassert os.waitpid(pid, 0)[1] >> 8 == 6", wire.OutcomeOK, 0, 0, wire.StateKept, ""},
		{"import os, threading\nthreading.Timer(0.05, os._exit, (8,)).start()\nwhile True: pass", wire.OutcomeExit, 8, 0, wire.StateLost, ""},
	}
	each(t, func(t *testing.T, p interpreter) {
		r := start(t, p)
		for _, c := range cases {
			r.ok("kept = 1")
			got := r.run(c.source)
			if got.err != nil || got.Outcome != c.outcome || got.Status != c.status || got.Signal != c.signal || got.State != c.state || got.errout != c.errout {
				t.Errorf("%q: %s", c.source, got)
			}
			after := r.run("kept")
			if lost := after.Exception != nil && after.Exception.Name == "NameError"; lost != (c.state == wire.StateLost) {
				t.Errorf("%q: the variable afterwards: %s", c.source, after)
			}
		}
	})
}

// TestSegmentationFault: a crash of native code says where it happened.
func TestSegmentationFault(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		got := start(t, p).run("import ctypes\nctypes.string_at(0)")
		if got.Outcome != wire.OutcomeSignal || got.Signal != 11 || got.State != wire.StateLost || !strings.Contains(got.errout, "<cell 1>") {
			t.Errorf("%s", got)
		}
	})
}

// TestStatusUnderOrphanLoad: while many orphans end at the same time, every
// status of the interpreter itself is exact.
func TestStatusUnderOrphanLoad(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		r := start(t, p)
		step := 1
		if testing.Short() {
			step = 16
		}
		for status := 0; status < 256; status += step {
			orphans := 8
			got := r.run(fmt.Sprintf(`
import os
for i in range(%d):
    if os.fork() == 0:
        if os.fork() == 0: os._exit(i)
        os._exit(99)
os._exit(%d)`, orphans, status))
			if got.err != nil || got.Outcome != wire.OutcomeExit || got.Status != status {
				t.Fatalf("status %d: %s", status, got)
			}
		}
	})
}

// TestOnce: a whole program ends as Python ends.
func TestOnce(t *testing.T) {
	const atexit = "import atexit, sys, os, threading, time\natexit.register(print, 'at exit')\n"
	cases := []struct {
		name, source string
		outcome      wire.Outcome
		status       int
		signal       int
		out          string
	}{
		{"end", atexit + "print('x')", wire.OutcomeOK, 0, 0, "x\nat exit\n"},
		{"exit", atexit + "sys.exit(7)", wire.OutcomeExit, 7, 0, "at exit\n"},
		{"exit 137", "raise SystemExit(137)", wire.OutcomeExit, 137, 0, ""},
		{"exit text", "raise SystemExit('text')", wire.OutcomeExit, 1, 0, ""},
		{"exception", atexit + "1/0", wire.OutcomeException, 1, 0, "at exit\n"},
		{"thread", atexit + "threading.Timer(0.1, print, ('thread',)).start()", wire.OutcomeOK, 0, 0, "thread\nat exit\n"},
		{"unflushed", "import os; f = open('f', 'w'); f.write('flushed'); g = 1", wire.OutcomeOK, 0, 0, ""},
		{"status at exit", atexit + "atexit.register(os._exit, 9)", wire.OutcomeExit, 9, 0, ""},
		{"killed at exit", "import atexit, os; atexit.register(os.kill, os.getpid(), 9)", wire.OutcomeSignal, 0, 9, ""},
		{"exit in a handler is too late", "import atexit, sys; atexit.register(sys.exit, 5)", wire.OutcomeOK, 0, 0, ""},
		{"leaves a child", "import subprocess; subprocess.Popen(['sleep', '1000']); print('x')", wire.OutcomeOK, 0, 0, "x\n"},
		{"result", "40 + 2", wire.OutcomeOK, 0, 0, ""},
	}
	each(t, func(t *testing.T, p interpreter) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				r := start(t, p)
				got := r.once(c.source)
				if got.err != nil || got.Outcome != c.outcome || got.Status != c.status || got.Signal != c.signal || got.State != wire.StateEnded || got.out != c.out {
					t.Errorf("%s", got)
				}
				switch c.name {
				case "unflushed":
					if text, err := r.get("f"); text != "flushed" {
						t.Errorf("the file holds %q, %v", text, err)
					}
				case "leaves a child":
					if got.Swept != 1 {
						t.Errorf("swept %d", got.Swept)
					}
				case "result":
					if got.part("text/plain") != "42" {
						t.Errorf("displays %+v", got.displays)
					}
				}
				if again := r.run("1"); again.err == nil {
					t.Errorf("a run after the one program: %s", again)
				}
				if _, err := r.Call(limited(t), wire.Control{Op: wire.OpVariables}, nil, nil); code(err) != wire.CodeFailed {
					t.Errorf("variables of an ended program: %v", err)
				}
				r.call(wire.OpPing, wire.ControlArgs{}, nil)
			})
		}
	})
}

// TestDiedBetweenRuns: what nobody saw is told by the next run.
func TestDiedBetweenRuns(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		r := start(t, p)
		r.ok("import os, threading, time; kept = 1; before = os.getpid()\ndef end():\n  while not os.path.exists('go'): time.sleep(0.01)\n  os._exit(3)\nthreading.Thread(target=end).start()")
		pid := numbers(r.ok("print(before)").out)
		if len(pid) != 1 {
			t.Fatal("no process id")
		}
		if err := r.put("go", ""); err != nil {
			t.Fatal(err)
		}
		await(t, "the end of the worker", func() bool { return gone(pid[0]) })
		var got *result
		await(t, "a run that is told", func() bool {
			got = r.run("1")
			return got.State == wire.StateLost
		})
		if got.err != nil || got.Outcome != wire.OutcomeOK || !strings.Contains(got.errout, "brig: the interpreter exited with status 3 between two runs") {
			t.Errorf("%s", got)
		}
		if got := r.run("1"); got.State != wire.StateKept || got.errout != "" {
			t.Errorf("told twice: %s", got)
		}
	})
}
