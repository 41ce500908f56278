package hostfallback

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"brig/hostfallback/confine"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/sandbox/sandboxtest"
)

// ownGroup is the control group of this process, where it may make others.
func ownGroup(t *testing.T) string {
	t.Helper()
	b := testBackend(t)
	r := openInstance(t, b, testBase()).(*instance).started.Report
	if r.Cgroup.Path == "" {
		sandboxtest.Skip(t, "a control group of version 2 that belongs to this user", r.Cgroup.Code)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 2 && f[2] == "cgroup2" {
			return filepath.Join(f[1], filepath.Dir(r.Cgroup.Path))
		}
	}
	t.Fatal("a group, and no hierarchy")
	return ""
}

// TestSweepCgroup: what is left of an instance whose brig and supervisor were
// killed is found by its control group, whatever it did to hide.
func TestSweepCgroup(t *testing.T) {
	own := ownGroup(t)
	b := testBackend(t)
	token := "0123456789abcdef"
	home := filepath.Join(b.options.instances(), token)
	dir := filepath.Join(own, "brig-"+token)
	for _, d := range []string{home, dir} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range map[string]string{"owner": "tests", "id": "id", "lock": "", confine.CgroupFile: dir} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	group, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = group.Close() }() // opened for reading
	hidden := exec.Command("/bin/sleep", "60")
	hidden.Env = []string{}
	hidden.SysProcAttr = &syscall.SysProcAttr{Setsid: true, UseCgroupFD: true, CgroupFD: int(group.Fd())}
	if err := hidden.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- hidden.Wait() }()
	none := func(sandbox.InstanceID) bool { return false }
	if removed, err := b.Sweep(testContext(t), "tests", none); err != nil || removed != 1 {
		_ = hidden.Process.Kill()
		t.Fatalf("removed %d, %v", removed, err)
	}
	<-ended
	if exists(dir) || exists(home) {
		t.Errorf("group %v, home %v", exists(dir), exists(home))
	}
}

// TestSupervisorKilled: when the supervisor is killed, the group is what brig ends
// the tree by.
func TestSupervisorKilled(t *testing.T) {
	own := ownGroup(t)
	base := testBase()
	base.Mode = sandbox.ModeOff // no process namespace, whose end would end everything first
	i := openInstance(t, testBackend(t), base).(*instance)
	dir := filepath.Join(own, filepath.Base(i.started.Report.Cgroup.Path))
	if !exists(dir) {
		t.Fatalf("no group %s: %+v", dir, i.started.Report.Cgroup)
	}
	output(t, i, "r", "import subprocess; subprocess.Popen(['/bin/sleep', '60'], env={}, start_new_session=True)")
	if err := i.process.handle.Kill(); err != nil {
		t.Fatal(err)
	}
	<-i.Done()
	if e := i.Cause(); e.Cause != sandbox.BackendLost {
		t.Errorf("%+v", e)
	}
	if exists(dir) {
		t.Error("the group is left")
	}
}
