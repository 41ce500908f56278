package docker

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/docker/docker/api/types/system"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/sandbox/sandboxtest"
)

// BRIG_TEST_RUNSC names gVisor's runsc, which .ci/gvisor builds in some minutes; so
// .ci/full sets it, and without it there is nothing here to test and nothing skipped.
func runsc() string { return os.Getenv("BRIG_TEST_RUNSC") }

// gvisorEngine is an engine of its own with gVisor twice, as it comes and with the
// filters that containers ask for, and with a runtime whose program is missing.
func gvisorEngine(t *testing.T) *ownEngine {
	t.Helper()
	text, err := json.Marshal(map[string]any{"runtimes": map[string]system.Runtime{
		"runsc":          {Path: runsc(), Args: []string{"--platform=systrap"}},
		"runsc-filtered": {Path: runsc(), Args: []string{"--platform=systrap", "--oci-seccomp"}},
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
	if runsc() == "" {
		return
	}
	own := gvisorEngine(t)
	base := coreBase()
	base.Runtime = "runsc"
	f := conformance(t, func(o *Options) { o.Endpoint = own.endpoint })
	f.Base = base
	sandboxtest.Run(t, f)
}

// TestGVisorPosture: what gVisor does not do is off, what it does is seen.
func TestGVisorPosture(t *testing.T) {
	if runsc() == "" {
		return
	}
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
	if runsc() == "" {
		return
	}
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
