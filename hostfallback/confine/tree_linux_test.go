package confine

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"brig/hostfallback/internal/sys"
)

// Programs whose processes try to outlive their parent. Each prints "ready"
// when its tree stands.
const (
	setsidChild = `
import os, time
if os.fork() == 0:
    os.setsid(); time.sleep(600)
print("ready", flush=True); time.sleep(600)`
	daemon = `
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork(): os._exit(0)
    os.environ.clear(); os.closerange(0, 3); time.sleep(600)
os.wait(); print("ready", flush=True); time.sleep(600)`
	chains = `
import os, time
for _ in range(4):
    if os.fork() == 0:
        os.setsid()
        while True:
            if os.fork(): os._exit(0)
time.sleep(0.1); print("ready", flush=True); time.sleep(600)`
	deaf = `
import os, signal, time
for s in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
    try: signal.signal(s, signal.SIG_IGN)
    except (OSError, ValueError): pass
print("ready", flush=True); time.sleep(600)`
	stopped = `
import os, signal, time
if os.fork() == 0:
    os.kill(os.getpid(), signal.SIGSTOP)
time.sleep(0.05); print("ready", flush=True); time.sleep(600)`
)

// orphanage makes this process the parent of everything that loses its own
// below it, so that nothing can get out of sight.
func orphanage(t *testing.T) {
	t.Helper()
	needPython(t)
	if err := sys.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sys.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0); err != nil {
			t.Fatal(err)
		}
	})
}

// living lists what runs below this process. Zombies run nothing.
func living() []int {
	var out []int
	for _, pid := range descendants(os.Getpid()) {
		if state := statField(pid, 0); state != "Z" && state != "" {
			out = append(out, pid)
		}
	}
	return out
}

// awaitNothing waits until nothing runs below this process, for as long as the
// promise says.
func awaitNothing(t *testing.T, promise time.Duration) time.Duration {
	t.Helper()
	begin := time.Now()
	for {
		left := living()
		took := time.Since(begin)
		if len(left) == 0 {
			return took
		}
		if took > promise {
			for _, pid := range left {
				line, _ := os.ReadFile("/proc/" + statField(pid, 1) + "/cmdline")
				t.Errorf("left: %d %s %q", pid, statField(pid, 0), line)
				_ = unix.Kill(pid, unix.SIGKILL)
			}
			return took
		}
		time.Sleep(time.Millisecond)
	}
}

// TestTreeKill: an ordered end leaves nothing, whatever the tree does.
func TestTreeKill(t *testing.T) {
	orphanage(t)
	for name, program := range map[string]string{
		"setsid": setsidChild, "daemon": daemon, "chains": chains, "deaf": deaf, "stopped": stopped,
	} {
		t.Run(name, func(t *testing.T) {
			p := basePlan(t, python, "-I", "-c", program)
			i := launch(t, p)
			i.started()
			i.ready("ready")
			if n := len(living()); n < 2 {
				t.Fatalf("the observer sees %d processes", n)
			}
			if err := i.life.Close(); err != nil {
				t.Fatal(err)
			}
			ended := i.ended()
			i.wait()
			if len(ended.Left) > 0 || ended.Cause != EndOrdered {
				t.Errorf("ended: %+v", ended)
			}
			awaitNothing(t, 0)
			t.Logf("killed %d in %s", ended.Killed, ended.Took)
		})
	}
}

// TestRunnerEnds: when the runner ends by itself, the rest goes with it: by the
// kernel where the runner is the first of its process namespace, else by the sweep.
func TestRunnerEnds(t *testing.T) {
	orphanage(t)
	program := strings.ReplaceAll(daemon, `print("ready", flush=True); time.sleep(600)`, `os._exit(9)`)
	for name, kernel := range map[string][]string{"whole": nil, "no process namespace": {answers("newpid", unix.EPERM)}} {
		t.Run(name, func(t *testing.T) {
			_, ended, report := run(t, basePlan(t, python, "-I", "-c", program), kernel...)
			want := 1
			if report.Namespaces.Process.Applied {
				want = 0
			}
			if ended.Cause != EndSelf || ended.Status != 9 || ended.Killed != want {
				t.Errorf("ended: %+v, want %d killed", ended, want)
			}
			awaitNothing(t, 0)
		})
	}
}

// brigKilled starts a process that behaves like brig, kills it after a while
// and returns the instance's plan.
func brigKilled(t *testing.T, program string, kill func(lines *syncBuffer)) Plan {
	t.Helper()
	p := basePlan(t, python, "-I", "-c", program)
	raw, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var out syncBuffer
	cmd := exec.Command("/proc/self/exe", roleArgument, "parent")
	cmd.Stdin = strings.NewReader(string(raw))
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		buffer := make([]byte, 4096)
		for {
			n, err := r.Read(buffer)
			_, _ = out.Write(buffer[:n])
			if err != nil {
				return
			}
		}
	}()
	kill(&out)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	took := awaitNothing(t, 5*time.Second)
	<-done // everybody who held the output is gone
	t.Logf("all gone after %s", took)
	if _, err := os.Stat(p.Home); !os.IsNotExist(err) {
		// Killed before the plan was read, the directory waits for the next sweep.
		if entries, err := filepath.Glob(p.Home + "/*"); err != nil || len(entries) > 1 {
			t.Errorf("left behind: %v %v", entries, err)
		}
	}
	return p
}

// TestBrigKilled: five seconds after brig was killed nothing of its instance runs.
func TestBrigKilled(t *testing.T) {
	orphanage(t)
	for name, program := range map[string]string{"daemon": daemon, "chains": chains, "deaf": deaf} {
		t.Run(name, func(t *testing.T) {
			brigKilled(t, program, func(out *syncBuffer) {
				for deadline := time.Now().Add(30 * time.Second); !strings.Contains(out.String(), "ready"); {
					if time.Now().After(deadline) {
						t.Fatalf("not ready: %s", out.String())
					}
					time.Sleep(time.Millisecond)
				}
			})
		})
	}
	// Every moment of the start: before the plan, during the helper, after the exec.
	t.Run("start", func(t *testing.T) {
		for after := time.Duration(0); after < 60*time.Millisecond; after += 2 * time.Millisecond {
			brigKilled(t, daemon, func(*syncBuffer) { time.Sleep(after) })
		}
	})
}

// TestRescue: what a killed supervisor leaves is found by session and by mark.
// Nothing is left where the runner, and with it its process namespace, dies with
// the supervisor.
func TestRescue(t *testing.T) {
	orphanage(t)
	for name, c := range map[string]struct {
		kernel []string
		left   int
	}{"process namespace": {nil, 0}, "none": {[]string{answers("newpid", unix.EPERM)}, 2}} {
		t.Run(name, func(t *testing.T) {
			p := basePlan(t, python, "-I", "-c", setsidChild)
			p.Env = append(p.Env[:len(p.Env)-1], Marker+"="+p.Token)
			i := launch(t, p, c.kernel...)
			s := i.started()
			i.ready("ready")
			if err := i.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			i.wait()
			if c.left == 0 {
				awaitNothing(t, time.Second)
			} else if n := len(living()); n != c.left {
				t.Fatalf("control: %d processes survived their supervisor, want %d", n, c.left)
			}
			if left := Rescue(p.Token, s.PID); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
			awaitNothing(t, 0)
		})
	}
}

// TestRescueNameless: where no kernel's means hold the tree, and supervisor and
// runner are killed at once, what gave up session, parent and environment is found
// by its mark, which it can neither lower nor raise.
func TestRescueNameless(t *testing.T) {
	orphanage(t)
	times := 5
	if os.Getenv("BRIG_TEST_LONG") != "" {
		times = 100
	}
	program := `
import os, resource, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork(): os._exit(0)
    mark = resource.getrlimit(15)
    for new in (0, 0), (0, mark[1]), (mark[0], mark[1] - 1), (mark[0], mark[1] + 1), (-1, -1):
        try: resource.setrlimit(15, new)
        except (OSError, ValueError): pass
        else: print("it lost its mark", flush=True)
    code = "import os, time; print('ready', flush=True); os.closerange(0, 3); time.sleep(600)"
    os.execve(sys.executable, ["x", "-I", "-S", "-c", code], {})
os.wait(); time.sleep(600)`
	for range times {
		p := basePlan(t, python, "-I", "-c", program)
		i := launch(t, p, answers("newpid", unix.EPERM))
		s := i.started()
		if s.Report.Mark != mark(p.Token) {
			t.Fatalf("the mark is %d, want %d", s.Report.Mark, mark(p.Token))
		}
		i.ready("ready")
		for _, pid := range []int{i.cmd.Process.Pid, s.PID} {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
		i.wait()
		if Rescue(p.Token+"x", s.PID); len(living()) != 1 {
			t.Fatalf("control: %v survive the rescue of another", living())
		}
		begin := time.Now()
		if left := Rescue(p.Token, s.PID); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		awaitNothing(t, 0)
		t.Logf("gone after %s", time.Since(begin))
	}
}

// TestHostileName: a process chooses its own name, and the name stands in the
// middle of the line that is parsed.
func TestHostileName(t *testing.T) {
	needPython(t)
	cmd := exec.Command(python, "-I", "-c", `
import ctypes, time
ctypes.CDLL(None).prctl(15, b") Z 1 (x) R 7 ", 0, 0, 0); print("ready", flush=True); time.sleep(600)`)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	if _, err := out.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	if state, parent := statField(pid, 0), statField(pid, 1); state == "Z" || parent != strconv.Itoa(os.Getpid()) {
		t.Errorf("state %s, parent %s", state, parent)
	}
	if found := descendantsByParent(os.Getpid()); !slices.Contains(found, pid) {
		t.Errorf("the slow way finds %v, not %d", found, pid)
	}
	if n := tasksOf([]int{pid}); n != 1 {
		t.Errorf("%d tasks", n)
	}
}
