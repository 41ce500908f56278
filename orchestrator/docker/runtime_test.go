package docker

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/system"

	"brig/orchestrator/sandbox"
)

// wantUnavailable checks that err is a mistake of the settings with that code, and
// that a person is told each of words.
func wantUnavailable(t testing.TB, err error, code string, words ...string) {
	t.Helper()
	var u *sandbox.Unavailable
	if !errors.As(err, &u) {
		t.Fatalf("want %s, got %v", code, err)
	}
	if u.Code != code || !u.Settings || u.Remedy == "" {
		t.Errorf("want %s of the settings with a remedy, got %+v", code, u)
	}
	for _, word := range words {
		if !strings.Contains(u.Reason, word) {
			t.Errorf("the reason lacks %q: %s", word, u.Reason)
		}
	}
}

func TestPickRuntime(t *testing.T) {
	plain := system.RuntimeWithStatus{Runtime: system.Runtime{Path: "runc"}}
	offered := func(names ...string) map[string]system.RuntimeWithStatus {
		all := map[string]system.RuntimeWithStatus{}
		for _, name := range names {
			all[name] = plain
		}
		return all
	}
	hidden := offered("runc")
	hidden["strong"] = system.RuntimeWithStatus{Runtime: system.Runtime{Path: "/opt/gvisor/runsc"}}
	hidden["shim"] = system.RuntimeWithStatus{Runtime: system.Runtime{Type: "io.containerd.kata.v2"}}
	for _, c := range []struct {
		name     string
		offered  map[string]system.RuntimeWithStatus
		standard string
		asked    string
		want     string // of the engine
		given    string // to the engine
		kernel   kernel
	}{
		{"nothing special", offered("runc", "io.containerd.runc.v2"), "runc", "auto", "runc", "", sharedKernel},
		{"unset is auto", offered("runc", "runsc"), "runc", "", "runsc", "runsc", gvisorKernel},
		{"gvisor", offered("runc", "runsc"), "runc", "auto", "runsc", "runsc", gvisorKernel},
		{"kata before gvisor", offered("runc", "runsc", "kata-runtime"), "runc", "auto", "kata-runtime", "kata-runtime", kataKernel},
		{"the shortest of a kind", offered("runc", "kata-qemu", "kata", "kata-fc"), "runc", "auto", "kata", "kata", kataKernel},
		{"a default of the kind stays", offered("runc", "runsc", "runsc-debug"), "runsc-debug", "auto", "runsc-debug", "", gvisorKernel},
		{"a weaker default does not", offered("runc", "kata", "runsc"), "runsc", "auto", "kata", "kata", kataKernel},
		{"known by its path", map[string]system.RuntimeWithStatus{"runc": plain, "strong": hidden["strong"]}, "runc", "auto", "strong", "strong", gvisorKernel},
		{"known by its shim", hidden, "runc", "auto", "shim", "shim", kataKernel},
		{"containerd's name", offered("runc", "io.containerd.runsc.v1"), "runc", "runsc", "io.containerd.runsc.v1", "io.containerd.runsc.v1", gvisorKernel},
		{"a kind", offered("runc", "kata-qemu"), "runc", "kata", "kata-qemu", "kata-qemu", kataKernel},
		{"weaker by choice", offered("runc", "runsc"), "runsc", "runc", "runc", "runc", sharedKernel},
		{"another name", offered("runc", "crun"), "runc", "crun", "crun", "crun", sharedKernel},
	} {
		got, err := pickRuntime(c.offered, c.standard, c.asked)
		if err != nil || got.engine != c.want || got.name != c.given || got.kernel != c.kernel || got.why == "" {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
	}
	e := &engine{target: target{endpoint: "unix:///x"}, info: system.Info{Runtimes: offered("runc", "crun"), DefaultRuntime: "runc"}}
	for _, asked := range []string{"runsc", "kata", "nonsense", "RUNC"} {
		_, err := e.pickRuntime(asked)
		wantUnavailable(t, err, "runtime-missing", asked, "runc", "crun")
	}
	podman := &engine{podman: true, info: system.Info{Runtimes: offered("crun", "kata", "runsc"), DefaultRuntime: "crun"}}
	if r, err := podman.pickRuntime("auto"); err != nil || r.name != "" || r.kernel != sharedKernel {
		t.Errorf("Podman's list was believed: %+v, %v", r, err)
	}
}

// TestGuestLimits: under gVisor the guest's kernel holds the process limit, and the
// engine's stays out of its way.
func TestGuestLimits(t *testing.T) {
	s := exampleSpec()
	nproc := func() (n int64, ok bool) {
		for _, u := range s.hostConfig().Ulimits {
			if u.Name == "nproc" {
				return u.Hard, true
			}
		}
		return 0, false
	}
	if _, ok := nproc(); ok || *s.hostConfig().PidsLimit != int64(s.limits.Processes) {
		t.Error("a shared kernel is given a limit per user, or another process limit")
	}
	s.runtime.kernel = gvisorKernel
	if n, ok := nproc(); !ok || n != int64(s.limits.Processes) || *s.hostConfig().PidsLimit < 2*n+256 {
		t.Errorf("gVisor is given nproc %d and %d threads", n, *s.hostConfig().PidsLimit)
	}
}

// TestTooManyOpenFiles: the engine's words become the setting that is wrong.
func TestTooManyOpenFiles(t *testing.T) {
	s := spec{limits: sandbox.Limits{OpenFiles: 99_000_000}}
	said := fmt.Errorf("%w: OCI runtime create failed: error setting rlimit type 7: operation not permitted", errdefs.ErrInternal)
	var u *sandbox.Unavailable
	if err := s.startFailure(said); !errors.As(err, &u) || u.Code != "open-files-too-many" || !u.Settings || u.Remedy != "brig config show limits.open_files" || !errors.Is(err, said) {
		t.Errorf("%v", err)
	}
	if err := s.startFailure(fmt.Errorf("%w: OCI runtime create failed: no such file", errdefs.ErrInternal)); errors.As(err, &u) && u.Code == "open-files-too-many" {
		t.Errorf("%v", err)
	}
}
