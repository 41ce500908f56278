package runner

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"brig/orchestrator/wire"
)

// darwinVariable makes the tests of this process start every runner by a program
// that takes away what macOS has not.
const darwinVariable = "BRIG_TEST_RUNNER_DARWIN"

//go:embed testdata/darwin.py
var darwinProgram []byte

// prepareDarwin puts that program before the runner's.
func prepareDarwin(m *machine) error {
	m.arguments = append([]string{m.script}, m.arguments...)
	m.script = filepath.Join(filepath.Dir(m.script), "darwin.py") // what is beside it is compiled
	return os.WriteFile(m.script, darwinProgram, 0o644)
}

// onDarwin are the tests of what is done in another way there: processes, files,
// pipes, and what the runner sees of itself. What asks /proc itself, or is about
// process 1, is not among them.
const onDarwin = `^(TestEnds|TestSegmentationFault|TestOnce|TestDiedBetweenRuns|TestFiles|TestFileTraps|TestTransfersBesideARun|TestLargeTree|` +
	`TestSoftInterrupt|TestInterruptStorm|TestSweep|TestHostileWorker|TestLimit|TestSilence|TestNoHello|TestGoodbye|TestDarwinOf)$`

// TestDarwin runs a part of the suite once more, without what macOS has not.
func TestDarwin(t *testing.T) {
	if testing.Short() || os.Getenv(darwinVariable) != "" || os.Getenv(spawnedVariable) != "" {
		return
	}
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(executable, "-test.count=1", "-test.timeout=8m", "-test.run", onDarwin)
	cmd.Env = append(os.Environ(), darwinVariable+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestDarwinOf looks at what only that way shows: what the runner says of itself, who
// is found of those that nothing connects with it any more, and what it uses.
func TestDarwinOf(t *testing.T) {
	if os.Getenv(darwinVariable) == "" {
		return
	}
	each(t, func(t *testing.T, p interpreter) {
		r := start(t, p)
		o := r.ready.Observed
		for _, name := range []string{"nofile", "fsize", "core", "nproc"} {
			if _, ok := o.Rlimits[name]; !ok {
				t.Errorf("no limit %s in %v", name, o.Rlimits)
			}
		}
		if len(o.Status) > 0 || len(o.Mounts) > 0 || len(o.Cgroup) > 0 || o.Kernel == "" || o.Dumpable != -1 {
			t.Errorf("observed %+v", o)
		}
		for name, outcome := range o.Attempts {
			if outcome == "unavailable" || outcome == "killed" {
				t.Errorf("%s is %s", name, outcome)
			}
		}
		for _, name := range []string{"write_root", "write_scratch", "bind_loopback", "kill_parent", "list_outside", "stat_outside", "chmod_root"} {
			if o.Attempts[name] == "" {
				t.Errorf("%s was not attempted: %v", name, o.Attempts)
			}
		}
		if o.Attempts["write_scratch"] != "ok" || o.Attempts["bind_loopback"] != "ok" || o.Attempts["write_root"] == "ok" || o.Attempts["socket_netlink"] != "" {
			t.Errorf("attempts %v", o.Attempts)
		}
		// A daemon that has left its session and lost its parent.
		run := r.background(`
import os, time, sys
if os.fork() == 0:
    os.setsid()
    if os.fork(): os._exit(0)
    print(os.getpid(), "ready", flush=True)
    time.sleep(1000)
time.sleep(1000)`)
		run.until(t, "ready")
		r.interrupt(run, wire.Soft, true)
		got := <-run.done
		daemon := numbers(got.out)
		if len(daemon) != 1 || !gone(daemon[0]) {
			t.Errorf("the daemon %v is still there", daemon)
		}
		if usage := r.usage(); usage.Processes != 2 || usage.RSS < 1<<20 || usage.CPU <= 0 {
			t.Errorf("usage %+v", usage)
		}
	})
}

func (r *rig) usage() (usage wire.UsageBody) {
	r.t.Helper()
	r.call(wire.OpUsage, wire.ControlArgs{}, &usage)
	return usage
}

// zombie tells whether a process has ended and waits for its parent, which may be
// one of this machine's that takes its time.
func zombie(pid int) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := strings.Cut(string(raw), ") ")
	return err == nil && strings.HasPrefix(state, "Z")
}
