package docker

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"

	"brig/images"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/sandbox/sandboxtest"
	"github.com/rogpeppe/go-internal/txtar"
)

const recordedID = "177ed921410be8d5c37a587c4c6391d77639a14d616c91bfdd36fcca273ab021"

// recorded unpacks a tree of /proc and control groups.
func recorded(t *testing.T, name string) string {
	t.Helper()
	a, err := txtar.ParseFile(filepath.Join("testdata", "cgroup", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, f := range a.Files {
		to := filepath.Join(dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestCountersOfRecordedTrees(t *testing.T) {
	for name, want := range map[string]struct {
		c   sandbox.Counters
		err error
	}{
		"v1-cgroupfs":  {c: sandbox.Counters{OOMKills: 3, ForkFailures: 7, Source: "cgroup v1 memory.oom_control"}},
		"v1-systemd":   {c: sandbox.Counters{OOMKills: 1, ForkFailures: -1, Source: "cgroup v1 memory.oom_control"}},
		"v1-nested":    {c: sandbox.Counters{OOMKills: 2, ForkFailures: -1, Source: "cgroup v1 memory.oom_control"}},
		"v1-oldkernel": {err: errNoOOMCount},
		"v2-cgroupfs":  {c: sandbox.Counters{OOMKills: 4, ForkFailures: 9, Source: "cgroup v2 memory.events"}},
		"v2-systemd":   {c: sandbox.Counters{OOMKills: 5, ForkFailures: 0, Source: "cgroup v2 memory.events"}},
		"v2-podman":    {c: sandbox.Counters{OOMKills: 6, ForkFailures: 2, Source: "cgroup v2 memory.events"}},
		"v2-above":     {err: errNotNamed},   // brig in a container that does not see the engine's groups
		"v2-unmounted": {err: errNotVisible}, // another part of the hierarchy is mounted
		"other-pid":    {err: errNotNamed},   // the pid means another process here
	} {
		t.Run(name, func(t *testing.T) {
			dir := recorded(t, name)
			m, err := openMeter(filepath.Join(dir, "proc"), dir, 4242, recordedID)
			if want.err != nil {
				if !errors.Is(err, want.err) {
					t.Fatalf("%+v, %v; want %v", m, err, want.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer m.close()
			if got, err := m.read(); err != nil || got != want.c {
				t.Errorf("%+v, %v; want %+v", got, err, want.c)
			}
		})
	}
	if _, err := openMeter(t.TempDir(), "", 4242, recordedID); err == nil {
		t.Error("no /proc at all was no error")
	}
	if _, err := openMeter("/proc", "", 0, recordedID); err == nil {
		t.Error("no pid was no error")
	}
}

// TestNamesOfGroups: another container's group, or one that only contains the id, is not it.
func TestNamesOfGroups(t *testing.T) {
	id := strings.Repeat("ab", 32)
	for path, want := range map[string]string{
		"/docker/" + id:                                    "/docker/" + id,
		"/system.slice/docker-" + id + ".scope":            "/system.slice/docker-" + id + ".scope",
		"/docker/" + id + "/init":                          "/docker/" + id,
		"/machine.slice/libpod-" + id + ".scope/container": "/machine.slice/libpod-" + id + ".scope",
		"/docker/" + id + "x":                              "",
		"/docker/x" + id:                                   "",
		"/docker/" + id[:12]:                               "",
		"/docker-" + id:                                    "",
		"/../../docker/" + id:                              "",
		"/":                                                "",
		"/user.slice/docker-" + strings.Repeat("cd", 32):     "",
		"/a/" + id + "/docker/" + strings.Repeat("cd", 32):   "/a/" + id,
		"/docker/" + id + "/docker-" + id + ".scope/further": "/docker/" + id + "/docker-" + id + ".scope",
	} {
		if got, ok := groupOf(path, id); got != want || ok != (want != "") {
			t.Errorf("%s: %q, %v", path, got, ok)
		}
	}
}

func TestCountersFromOutside(t *testing.T) {
	b := engineBackend(t, images.Core)
	base := coreBase()
	base.Limits.Memory, base.Limits.Processes = 128<<20, 32
	i := session(t, b, base, t.TempDir())
	before, readable := sandbox.Meter(i).Counters()
	if !readable {
		t.Fatalf("the counters of a local engine's container cannot be read: %s", whyNoMeter(t, i))
	}
	if before.OOMKills != 0 || before.ForkFailures != 0 {
		t.Errorf("at the beginning: %+v", before)
	}
	ok(t, i, "import subprocess, sys\nprint(subprocess.call([sys.executable, '-c', 'x = bytearray(1 << 30)']))")
	after, _ := i.Counters()
	if after.OOMKills < 1 || after.ForkFailures != 0 {
		t.Errorf("after a child met the memory limit: %+v", after)
	}
	run(t, i, "import os\nfor _ in range(64):\n    try:\n        if os.fork() == 0:\n            import time; time.sleep(30)\n    except OSError as e:\n        break")
	last, _ := i.Counters()
	if last.ForkFailures < 1 || last.OOMKills != after.OOMKills {
		t.Errorf("after the process limit was met: %+v", last)
	}
	if err := i.Close(limited(t)); err != nil {
		t.Fatal(err)
	}
	if gone, readable := i.Counters(); !readable || gone != last {
		t.Errorf("after the end: %+v, %v; want %+v", gone, readable, last)
	}
}

func whyNoMeter(t *testing.T, i *instance) string {
	t.Helper()
	state, err := i.box.engine.cli.ContainerInspect(limited(t), i.box.id)
	if err != nil {
		return err.Error()
	}
	_, err = openMeter("/proc", "", state.State.Pid, i.box.id)
	if err == nil {
		return "they can"
	}
	return err.Error()
}

// TestRunnerOutOfMemory is the kernel killing the supervisor itself: nobody inside is
// left to say why. The test makes it prefer that one, because it does not by itself.
// What the engine tells has to suffice: the counters are gone with the group on some
// of the ends, depending on who is quicker.
func TestRunnerOutOfMemory(t *testing.T) {
	b := engineBackend(t, images.Core)
	if os.Getuid() != 0 {
		sandboxtest.Skip(t, "root, to choose whom the kernel kills", "an ordinary user")
	}
	base := coreBase()
	base.Limits.Memory = 128 << 20
	i := session(t, b, base, t.TempDir())
	state, err := i.box.engine.cli.ContainerInspect(limited(t), i.box.id)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", state.State.Pid), []byte("1000"), 0); err != nil {
		t.Fatal(err)
	}
	group := filepath.Dir(i.box.meter.memory.Name())
	i.box.meter.close()
	// A process from outside, which would be the second choice, takes the memory.
	eater := exec.CommandContext(t.Context(), "sh", "-c", `echo $$ >"$0/cgroup.procs" && x=$(head -c 400000000 /dev/zero | tr '\0' x)`, group)
	if err := eater.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = eater.Wait() }()
	<-i.Done()
	if c := i.Cause(); c.Cause != sandbox.MemoryOut {
		t.Errorf("%+v", c)
	}
}

// TestKilledIsNotMemory: a child met the limit some time before somebody else killed the container.
func TestKilledIsNotMemory(t *testing.T) {
	b := engineBackend(t, images.Core)
	base := coreBase()
	base.Limits.Memory = 128 << 20
	i := session(t, b, base, t.TempDir())
	ok(t, i, "import subprocess, sys\nsubprocess.call([sys.executable, '-c', 'x = bytearray(1 << 30)'])")
	if c, readable := i.Counters(); !readable || c.OOMKills == 0 {
		t.Fatalf("control: %+v, %v", c, readable)
	}
	if err := i.box.engine.cli.ContainerKill(limited(t), i.box.id, "KILL"); err != nil {
		t.Fatal(err)
	}
	<-i.Done()
	if c := i.Cause(); c.Cause != sandbox.Killed {
		t.Errorf("%+v", c)
	}
}

// TestEventsComeAgain breaks the event stream and expects what happened meanwhile to be told.
func TestEventsComeAgain(t *testing.T) {
	b := engineBackend(t, images.Core)
	i := session(t, b, coreBase(), t.TempDir())
	other := session(t, b, coreBase(), t.TempDir())
	if i.box.engine.feed != other.box.engine.feed {
		t.Error("two subscriptions on one engine")
	}
	cli := i.box.engine.cli
	awaitPaused := func(want bool) {
		t.Helper()
		for limited := limited(t); i.box.told.isPaused() != want; {
			if limited.Err() != nil {
				t.Fatalf("paused %v was not told", want)
			}
			_, _ = cli.Ping(limited)
		}
	}
	if err := cli.ContainerPause(limited(t), i.box.id); err != nil {
		t.Fatal(err)
	}
	awaitPaused(true)
	if err := cli.ContainerUnpause(limited(t), i.box.id); err != nil {
		t.Fatal(err)
	}
	awaitPaused(false)
	if other.box.told.isPaused() {
		t.Error("the other container is told to be paused")
	}
	if err := cli.ContainerRemove(limited(t), i.box.id, container.RemoveOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	<-i.Done()
	if told := i.box.told.testify(limited(t)); !told.heard || !told.killed || told.oom {
		t.Errorf("%+v", told)
	}
}
