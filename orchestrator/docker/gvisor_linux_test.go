package docker

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/pkg/stdcopy"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/sandbox/sandboxtest"
)

// runsc is gVisor's program.
func runsc(t *testing.T) string {
	return sandboxtest.OptIn(t, "BRIG_TEST_RUNSC", ".ci/gvisor builds it")
}

// gvisorEngine is an engine of its own with gVisor twice, as it comes and with the
// filters that containers ask for, and with a runtime whose program is missing.
func gvisorEngine(t *testing.T) *ownEngine {
	t.Helper()
	text, err := json.Marshal(map[string]any{"runtimes": map[string]system.Runtime{
		"runsc":          {Path: runsc(t), Args: []string{"--platform=systrap"}},
		"runsc-filtered": {Path: runsc(t), Args: []string{"--platform=systrap", "--oci-seccomp"}},
		"runsc-missing":  {Path: filepath.Join(t.TempDir(), "runsc")},
	}})
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "daemon.json")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return startEngine(t, "--config-file", name)
}

func TestGVisorConformance(t *testing.T) {
	own := gvisorEngine(t)
	base := coreBase()
	base.Runtime = "runsc"
	f := conformance(t, func(o *Options) { o.Endpoint = own.endpoint })
	f.Base = base
	// gVisor lets a program list what the supervisor has open, by number, and open
	// none of it. Its processes are no processes of this machine: they are seen by a
	// program that the engine starts beside them. Everything else is as with runc.
	f.ListsDescriptors = true
	f.Tree = guestTree
	f.Alive = guestAlive
	sandboxtest.Run(t, f)
}

// guestTree is the sandbox's own process on this machine and the guest's processes.
func guestTree(t testing.TB, i sandbox.Instance) []sandboxtest.Process {
	x := boxOf(i)
	state, err := x.engine.cli.ContainerInspect(limited(t), x.id)
	if err != nil {
		t.Fatal(err)
	}
	all := sandboxtest.ProcTree(state.State.Pid)[:1]
	for _, p := range inGuest(t, i) {
		all = append(all, sandboxtest.Process{ID: guestProcess + p, Command: "process " + p + " of the guest"})
	}
	return all
}

const guestProcess = "guest "

func guestAlive(t testing.TB, i sandbox.Instance, p sandboxtest.Process) bool {
	id, guest := strings.CutPrefix(p.ID, guestProcess)
	if !guest {
		return sandboxtest.ProcAlive(p)
	}
	return slices.Contains(inGuest(t, i), id)
}

// inGuest lists number and start of the guest's living processes, except the lister.
// Where the container is gone there are none.
func inGuest(t testing.TB, i sandbox.Instance) []string {
	const lister = `
import os
for pid in os.listdir("/proc"):
    if pid.isdigit() and int(pid) != os.getpid():
        try:
            fields = open("/proc/%s/stat" % pid).read().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] not in "ZX":
            print("%s@%s" % (pid, fields[19]))
`
	x := boxOf(i)
	made, err := x.engine.cli.ContainerExecCreate(limited(t), x.id, container.ExecOptions{
		Cmd: []string{"python3", "-I", "-S", "-c", lister}, AttachStdout: true, AttachStderr: true,
	})
	if errdefs.IsNotFound(err) || errdefs.IsConflict(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	stream, err := x.engine.cli.ContainerExecAttach(limited(t), made.ID, container.ExecAttachOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	var stdout, stderr strings.Builder
	if _, err := stdcopy.StdCopy(&stdout, &stderr, stream.Reader); err != nil || stderr.Len() > 0 {
		t.Fatalf("list the guest's processes: %v, %s", err, stderr.String())
	}
	return strings.Fields(stdout.String())
}

// TestGVisorPosture: what gVisor does not do is off, what it does is seen.
func TestGVisorPosture(t *testing.T) {
	own := gvisorEngine(t)
	b := newBackend(t, func(o *Options) { o.Endpoint = own.endpoint })
	for _, c := range []struct {
		asked  string
		filter sandbox.LayerState
	}{{"auto", sandbox.Off}, {"runsc", sandbox.Off}, {"runsc-filtered", sandbox.Enforced}} {
		base := coreBase()
		base.Runtime = c.asked
		forecast, err := b.Capabilities(limited(t), base)
		if err != nil {
			t.Fatal(err)
		}
		p := session(t, b, base, t.TempDir()).Posture()
		t.Logf("%s: %v", c.asked, p.Notes)
		if gaps := p.Weakened(); len(gaps) > 0 {
			t.Errorf("%s: weakened: %v", c.asked, p.Warnings())
		}
		for _, id := range []sandbox.LayerID{sandbox.KernelSurface, sandbox.ProcessLimit, sandbox.MemoryLimit, sandbox.CPULimit} {
			if l := p.Layer(id); l.State != sandbox.Enforced {
				t.Errorf("%s: %+v", c.asked, l)
			}
		}
		if l := p.Layer(sandbox.SyscallFilter); l.State != c.filter {
			t.Errorf("%s: %+v", c.asked, l)
		}
		for _, l := range forecast {
			if got := p.Layer(l.ID); got.State != l.State && l.ID != sandbox.SyscallFilter {
				t.Errorf("%s: %s was forecast %s (%s) and is %s (%s: %s)", c.asked, l.ID, l.State, l.Code, got.State, got.Code, got.Reason)
			}
		}
	}
}

// TestRuntimeThatCannotStart: no other runtime is taken in its place.
func TestRuntimeThatCannotStart(t *testing.T) {
	own := gvisorEngine(t)
	b := newBackend(t, func(o *Options) { o.Endpoint = own.endpoint })
	base := coreBase()
	base.Runtime = "runsc-missing"
	_, err := b.Prepare(limited(t), base, t.TempDir())
	wantUnavailable(t, err, "runtime-cannot-start", "runsc-missing", "no such file")
	if n := len(containersOf(t, b)); n != 0 {
		t.Errorf("%d containers are left", n)
	}
}
