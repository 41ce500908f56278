package confine

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"brig/orchestrator/sandbox/sandboxtest"
)

// needGroup skips a test where this process was not given a control group to divide.
func needGroup(t *testing.T) hierarchy {
	t.Helper()
	h, ok := standing()
	if !ok || len(ownedUpwards(h)) == 0 {
		sandboxtest.Skip(t, "a control group of version 2 that belongs to this user", "own group "+h.own)
	}
	return h
}

// groupOf is where the group of a plan's instance must be, whoever noted it.
func groupOf(t *testing.T, h hierarchy, r Report) string {
	t.Helper()
	dir := filepath.Join(h.mount, r.Cgroup.Path)
	if r.Cgroup.Path == "" || !strings.HasPrefix(filepath.Base(dir), cgroupPrefix) {
		t.Fatalf("no group: %+v", r.Cgroup)
	}
	return dir
}

// TestCgroup: the runner is in a group of its own, its supervisor is not, and
// nothing is left of it at the end.
func TestCgroup(t *testing.T) {
	h := needGroup(t)
	p := basePlan(t, "/bin/sh", "-c", "(setsid sleep 60 & setsid sleep 60 &); echo ready; read x; exit 0")
	p.Namespace = false // a process namespace would end everything before the group
	i := launch(t, p)
	s := i.started()
	dir := groupOf(t, h, s.Report)
	if !s.Report.Cgroup.Kill {
		t.Errorf("no cgroup.kill: %+v", s.Report.Cgroup)
	}
	i.ready("ready")
	pids := pidsOf(dir)
	if len(pids) < 3 || !slices.Contains(pids, s.PID) || slices.Contains(pids, i.cmd.Process.Pid) {
		t.Errorf("in the group: %v; the runner is %d, its supervisor %d", pids, s.PID, i.cmd.Process.Pid)
	}
	if err := i.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if e := i.ended(); e.Cause != EndSelf || len(e.Left) > 0 || e.Killed < 2 {
		t.Errorf("%+v", e)
	}
	i.wait()
	gone(t, dir, pids)
}

func gone(t *testing.T, dir string, pids []int) {
	t.Helper()
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the group is left: %v", err)
	}
	for _, pid := range pids {
		if unix.Kill(pid, 0) == nil && statField(pid, 0) != "Z" {
			t.Errorf("process %d lives", pid)
		}
	}
}

// TestCgroupOfTheKilled: supervisor and runner are killed; what hid from its
// session and wiped its environment is found by the group, where nobody looks for
// the mark.
func TestCgroupOfTheKilled(t *testing.T) {
	h := needGroup(t)
	p := basePlan(t, "/bin/sh", "-c", "(env -i setsid sleep 61 &); echo ready; read x")
	p.Namespace = false // as above
	i := launch(t, p)
	s := i.started()
	dir := groupOf(t, h, s.Report)
	i.ready("ready")
	pids := pidsOf(dir)
	for _, pid := range []int{i.cmd.Process.Pid, s.PID} {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	<-i.exited
	if left := Rescue("another", s.PID); len(left) > 0 {
		t.Errorf("left by the rescue: %v", left)
	}
	if !slices.ContainsFunc(pids, func(pid int) bool { return unix.Kill(pid, 0) == nil && statField(pid, 0) != "Z" }) {
		t.Error("control: nothing was left for the group to find")
	}
	left, err := RemoveCgroup(p.Home, p.Token)
	if err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	gone(t, dir, pids)
	if left, err := RemoveCgroup(p.Home, p.Token); err != nil || len(left) > 0 {
		t.Errorf("again: left %v, %v", left, err)
	}
}

// TestCgroupNote: the note in an instance's home leads to no group but its own.
func TestCgroupNote(t *testing.T) {
	h := needGroup(t)
	victim := filepath.Join(ownedUpwards(h)[0], "victim-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(victim, 0o700); err != nil {
		t.Fatal(err)
	}
	group, err := os.Open(victim)
	if err != nil {
		t.Fatal(err)
	}
	sleep := exec.Command("/bin/sleep", "60")
	sleep.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd())}
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sleep.Process.Kill(); _ = sleep.Wait(); _ = group.Close(); removeGroup(victim) }()
	home := t.TempDir()
	plain := filepath.Join(home, cgroupPrefix+"token")
	if err := os.Mkdir(plain, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, note := range []string{victim, plain, "brig-token", victim + "/../" + filepath.Base(victim), h.own} {
		if err := os.WriteFile(filepath.Join(home, CgroupFile), []byte(note), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := RemoveCgroup(home, "token"); err == nil {
			t.Errorf("%s was taken for the instance's group", note)
		}
	}
	if err := sleep.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the victim: %v", err)
	}
	if _, err := os.Stat(plain); err != nil {
		t.Errorf("the directory: %v", err)
	}
}

// TestCgroupRefused starts on kernels that refuse something. The start succeeds,
// the report says what is missing, and no group is left.
func TestCgroupRefused(t *testing.T) {
	h := needGroup(t)
	cases := []struct {
		name, kernel, code, errno string
	}{
		{"no group", answers("mkdirat", unix.EPERM), CodeCgroupRefused, "EPERM"},
		{"no entry", answers("clone3", unix.ENOSYS), CodeCgroupRefused, "ENOSYS"},
		{"no access", answers("faccessat", unix.EACCES), CodeCgroupDelegation, "EACCES"},
		{"read-only", answers("faccessat", unix.EROFS), CodeCgroupReadOnly, "EROFS"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := basePlan(t, "/bin/true")
			_, e, r := run(t, p, c.kernel)
			want := c.code
			if h.old && (c.code == CodeCgroupDelegation || c.code == CodeCgroupReadOnly) {
				want = CodeCgroupV1 // the first thing to change
			}
			if g := r.Cgroup; g.Applied || g.Code != want || g.Errno != c.errno || g.Kill || g.Path != "" {
				t.Errorf("group: %+v, want %s %s", g, want, c.errno)
			}
			if e.Cause != EndSelf || e.Status != 0 {
				t.Errorf("%+v", e)
			}
			for _, dir := range ownedUpwards(h) {
				if _, err := os.Stat(filepath.Join(dir, cgroupPrefix+p.Token)); err == nil {
					t.Errorf("a group is left in %s", dir)
				}
			}
		})
	}
}

// TestCgroupControllers: without controllers the group has no limits, and says why.
func TestCgroupControllers(t *testing.T) {
	h := needGroup(t)
	_, _, r := run(t, basePlan(t, "/bin/true"))
	if controllers := words(filepath.Join(h.own, "cgroup.controllers")); contains(controllers, []string{"memory", "pids"}) {
		if g := r.Cgroup; !g.Applied || g.Memory != 1<<30 || g.Processes != 256 || g.Code != "" || !g.Kill {
			t.Errorf("with controllers: %+v", g)
		}
		return
	}
	want := CodeCgroupControl
	if h.old {
		want = CodeCgroupV1
	}
	if g := r.Cgroup; g.Applied || g.Code != want || g.Memory != 0 || g.Processes != 0 || !g.Kill || g.Path == "" {
		t.Errorf("without controllers: %+v, want %s", g, want)
	}
}

// needLimits is for a kernel whose controllers are in the hierarchy of version 2.
func needLimits(t *testing.T) hierarchy {
	t.Helper()
	sandboxtest.OptIn(t, "BRIG_TEST_CONTROLLERS", ".ci/kernels boots a kernel that hands them on")
	h := needGroup(t)
	if have := words(filepath.Join(h.own, "cgroup.controllers")); !contains(have, []string{"memory", "pids", "cpu"}) {
		t.Fatalf("needs the controllers memory, pids and cpu in %s, found %v", h.own, have)
	}
	return h
}

// TestCgroupMemory: what a tree holds together is bounded by the kernel, and its
// events are the evidence. The children are quicker than any watch.
func TestCgroupMemory(t *testing.T) {
	needPython(t)
	needLimits(t)
	p := basePlan(t, python, "-I", "-c", `
import mmap, os, time
for n in range(8):
    if os.fork() == 0:
        held = mmap.mmap(-1, 30 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE)
        time.sleep(60)
        os._exit(0)
time.sleep(60)
`)
	p.Limits.Memory = 96 << 20
	for try := 1; ; try++ { // a watch that comes at the right moment may be first
		q := p
		q.Token, q.Home = p.Token+strconv.Itoa(try), p.Home+strconv.Itoa(try)
		q.Scratch = q.Home + "/scratch"
		if err := os.MkdirAll(q.Scratch, 0o700); err != nil {
			t.Fatal(err)
		}
		i := launch(t, q)
		s := i.started()
		if g := s.Report.Cgroup; !g.Applied || g.Memory != 96<<20 {
			t.Fatalf("%+v", g)
		}
		e := i.ended()
		i.wait()
		if e.Cause != EndMemory || e.Limit != 96<<20 || e.Used <= 0 {
			t.Fatalf("%+v", e)
		}
		if e.By == ByCgroup {
			return
		}
		if try == 5 {
			t.Fatalf("the watch was always first: %+v", e)
		}
	}
}

// TestCgroupProcesses: a process too many is refused to the tree as a whole.
func TestCgroupProcesses(t *testing.T) {
	needPython(t)
	needLimits(t)
	p := basePlan(t, python, "-I", "-c", `
import os, sys, time
n = 0
try:
    while True:
        if os.fork() == 0:
            time.sleep(60)
        n += 1
except OSError as e:
    print("forked", n, e.errno, flush=True)
    sys.exit(7)
`)
	p.Limits.Processes = 20
	i := launch(t, p)
	if g := i.started().Report.Cgroup; !g.Applied || g.Processes != 20 {
		t.Fatalf("%+v", g)
	}
	e := i.ended()
	i.wait()
	if out := i.out.String(); !strings.Contains(out, "forked 19 11") {
		t.Errorf("output %q", out)
	}
	if e.Cause != EndProcesses || e.By != ByCgroup || e.Limit != 20 || e.Status != 7 {
		t.Errorf("%+v", e)
	}
}

// TestCgroupCPU: a third of a processor is a third, however many processes share it.
func TestCgroupCPU(t *testing.T) {
	needPython(t)
	h := needLimits(t)
	p := basePlan(t, python, "-I", "-c", `
import os, time
os.fork()
until = time.monotonic() + 1
while time.monotonic() < until:
    pass
`)
	p.Limits.MilliCPU = 330
	i := launch(t, p)
	s := i.started()
	dir := groupOf(t, h, s.Report)
	if g := s.Report.Cgroup; !g.Applied || g.MilliCPU != 330 {
		t.Fatalf("%+v", g)
	}
	throttled := int64(0)
	for deadline := time.Now().Add(900 * time.Millisecond); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if stat, err := read(dir, "cpu.stat"); err == nil {
			throttled = max(throttled, count(stat, "nr_throttled"))
		}
	}
	i.ended()
	if throttled == 0 {
		t.Error("nothing was held back")
	}
}
