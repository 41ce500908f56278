package runner

import (
	"strings"
	"testing"

	"brig/orchestrator/wire"
)

// TestControlStream: user code finds no way to the frames between brig and the
// supervisor. Each attempt has a control: the same on a process of its own.
func TestControlStream(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		r := start(t, p)
		got := r.ok(`
import os, sys, ctypes
libc = ctypes.CDLL(None, use_errno=True)
def attempts(pid):
    def opened(path, mode):
        try: fd = os.open(path, mode); os.close(fd); return True
        except OSError: return False
    def listed():
        try: return bool(os.listdir('/proc/%d/fd' % pid))
        except OSError: return False
    def read():
        iov = (ctypes.c_void_p * 2)(1, 1)
        libc.process_vm_readv(pid, iov, 1, iov, 1, 0)
        return ctypes.get_errno() != 1  # EPERM; on our own memory the address is what is wrong
    def fetched():
        fd = libc.syscall(434, pid, 0)  # pidfd_open
        got = libc.syscall(438, fd, 0, 0)  # pidfd_getfd
        os.close(fd)
        if got >= 0: os.close(got)
        return got >= 0
    ds = range(0, 80)
    return dict(
        fds=any(opened('/proc/%d/fd/%d' % (pid, n), mode | os.O_NONBLOCK) for n in ds for mode in (os.O_RDONLY, os.O_WRONLY)),
        listed=listed(), mem=opened('/proc/%d/mem' % pid, os.O_RDWR), environ=opened('/proc/%d/environ' % pid, os.O_RDONLY),
        maps=opened('/proc/%d/maps' % pid, os.O_RDONLY), vm=read(), pidfd=fetched())
child = os.fork()
if child == 0:
    import time; time.sleep(1000)
control = attempts(child)
os.kill(child, 9); os.wait()
print(attempts(os.getppid()))
print(control)`)
		lines := strings.Split(got.out, "\n")
		if strings.Contains(lines[0], "True") || strings.Count(lines[0], "False") != 7 {
			t.Errorf("user code reaches its supervisor: %s", lines[0])
		}
		if strings.Contains(lines[1], "False") {
			t.Errorf("the control, a child of its own, is out of reach: %s", lines[1])
		}
	})
}

// TestDescriptors: what a program, its children and what they execute have open.
func TestDescriptors(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		r := start(t, p)
		got := r.ok(`
import os, subprocess, sys
look = "import os; print(sorted(n for n in map(int, os.listdir('/proc/self/fd')) if os.path.exists('/proc/self/fd/%d' % n)))"
exec(look)
sys.stdout.flush()
if os.fork() == 0: exec(look); sys.stdout.flush(); os._exit(0)
os.wait()
print(subprocess.run([sys.executable, '-I', '-c', look], stdout=-1, close_fds=False).stdout.decode(), end='')
print(os.readlink('/proc/self/fd/0'), {os.readlink('/proc/self/fd/%d' % n)[:5] for n in (1, 2, 240, 241, 242)})`)
		want := "[0, 1, 2, 240, 241, 242]\n[0, 1, 2]\n[0, 1, 2]\n/dev/null {'pipe:'}\n"
		if got.out != want {
			t.Errorf("got  %q\nwant %q", got.out, want)
		}
	})
}

// TestHostileWorker: user code that has taken over the worker's own channel
// ends its interpreter at most.
func TestHostileWorker(t *testing.T) {
	const reports = "import os, json\ndef say(d):\n  d = d if isinstance(d, bytes) else json.dumps(d).encode()\n  os.write(241, len(d).to_bytes(4, 'big') + d)\n"
	frame := `{'t': 'display', 'n': 1, 'role': 'result', 'parts': %s}`
	cases := map[string]string{
		"noise":            "os.write(241, os.urandom(100_000))",
		"length":           "os.write(241, b'\\xff' * 4)",
		"no JSON":          "say(b'{')",
		"deep JSON":        "say(b'[' * 100_000)",
		"no object":        "say([1])",
		"unknown":          "say({'t': 'x'})",
		"outcome":          "say({'t': 'done', 'n': 1, 'outcome': 'fine'})",
		"other run":        "say({'t': 'done', 'n': 2, 'outcome': 'ok'})",
		"interrupted":      "say({'t': 'done', 'n': 1, 'outcome': 'interrupted'})",
		"no exception":     "say({'t': 'done', 'n': 1, 'outcome': 'exception'})",
		"status":           "say({'t': 'done', 'n': 1, 'outcome': 'exit', 'status': 'x'})",
		"no parts":         "say(" + sprintf(frame, "[]") + ")",
		"kind":             "say(" + sprintf(frame, "[{'mime': 'a', 'size': 1}]") + ")",
		"negative size":    "say(" + sprintf(frame, "[{'mime': 'a/b', 'size': -1}]") + ")",
		"size":             "say(" + sprintf(frame, "[{'mime': 'a/b', 'size': 1 << 40}]") + ")",
		"beyond the bound": "say(" + sprintf(frame, "[{'mime': 'a/b', 'size': 9 << 20}]") + ")",
		"inline":           "say(" + sprintf(frame, "[{'mime': 'a/b', 'text': 'x' * 5000}]") + ")",
		"many parts":       "say(" + sprintf(frame, "[{'mime': 'a/b', 'text': ''}] * 33") + ")",
		"exception":        "say({'t': 'done', 'n': 1, 'outcome': 'exception', 'exception': {'name': 1}})",
	}
	each(t, func(t *testing.T, p interpreter) {
		for name, source := range cases {
			r := start(t, p)
			got := r.run(reports + source + "\nimport time; time.sleep(1000)")
			if got.err != nil || got.Outcome != wire.OutcomeSignal || got.Signal != 9 || got.State != wire.StateLost || len(got.displays) > 0 {
				t.Errorf("%s: %s", name, got)
			}
			await(t, name+": word of the misuse", func() bool { return strings.Contains(r.stderr.String(), "the worker's channel was misused") })
			r.ok("1")
		}

		// What looks right is taken: it is that instance's own word about itself.
		r := start(t, p)
		if got := r.run(reports + "say({'t': 'done', 'n': 1, 'outcome': 'exit', 'status': 77})\nwhile True: pass"); got.Outcome != wire.OutcomeExit || got.Status != 77 {
			t.Errorf("%s", got)
		}
		run := r.background("1")
		await(t, "the run to be known", func() bool { return r.Interrupt(limited(t), run.id, wire.Hard, true) == nil })
		if got := <-run.done; got.err != nil || got.State != wire.StateLost {
			t.Errorf("%s", got)
		}

		// Half a display, then the end.
		got := r.run(reports + "say(" + strings.Replace(sprintf(frame, "[{'mime': 'a/b', 'size': 100_000}]"), "'n': 1", "'n': 3", 1) + ")\nos.write(241, b'x' * 50_000)\nos._exit(5)")
		if got.err != nil || got.Outcome != wire.OutcomeExit || got.Status != 5 || len(got.displays) > 0 {
			t.Errorf("%s", got)
		}

		// Closed ends.
		for _, source := range []string{"os.close(240)", "os.close(241)", "os.close(242)", "os.closerange(3, 300)", "os.close(1); os.close(2)"} {
			got := r.run(reports + source)
			if got.err != nil {
				t.Errorf("%s: %s", source, got)
			}
			await(t, "a run after "+source, func() bool { return r.run("1").Outcome == wire.OutcomeOK })
		}
	})
}

// TestSignalsToTheSupervisor: what user code sends up is of no use to it.
func TestSignalsToTheSupervisor(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		r := start(t, p)
		r.ok("import os, signal\nfor s in (signal.SIGINT, signal.SIGPIPE, signal.SIGCHLD, signal.SIGWINCH): os.kill(os.getppid(), s)")
		if got := r.run("os.kill(0, signal.SIGKILL)"); got.err != nil || got.Signal != 9 || got.State != wire.StateLost {
			t.Errorf("a signal to its own group: %s", got)
		}
		r.ok("1")
	})
}

// TestMemoryOrder: where memory is short, user code goes before its supervisor.
func TestMemoryOrder(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		got := start(t, p).ok(`
import os
def adj(pid): return open('/proc/%s/oom_score_adj' % pid).read().strip()
print(adj('self'), int(adj(os.getppid())) < 1000, os.popen('cat /proc/self/oom_score_adj').read().strip())`)
		if got.out != "1000 True 1000\n" {
			t.Errorf("%s", got.out)
		}
	})
}
