package selftest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func pythonOfTests(t *testing.T) string {
	t.Helper()
	var all error
	for _, name := range []string{"python3", "python"} {
		path, err := exec.LookPath(name)
		if err == nil {
			return path
		}
		all = err
	}
	t.Fatal(all)
	return ""
}

// dirOfTests is t.TempDir for a system where os.RemoveAll does not work, as in Wine.
func dirOfTests(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "brig-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := wipe(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// uncontained makes the attempts with nothing around them, in a yard of their own.
func uncontained(t *testing.T, o Options, probes []Probe) (*plot, map[string]Outcome) {
	t.Helper()
	o.Python, o.Environ = pythonOfTests(t), os.Environ()
	o.Root = dirOfTests(t)
	y, err := openYard(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := y.close(); err != nil {
			t.Error(err)
		}
	})
	p, err := y.plot("control", probes)
	if err != nil {
		t.Fatal(err)
	}
	source, err := program(p.targets(), probes)
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := y.control(t.Context(), source, p)
	if err != nil {
		t.Fatal(err)
	}
	p.believed(stdout)
	return p, outcomes(stdout)
}

// TestControlsHere: whatever system this is, every attempt that is written for it gets
// through with nothing around it, and the outside sees it.
func TestControlsHere(t *testing.T) {
	own := map[string]string{}
	for _, name := range []string{"state", "config", "runtime", "data", "cache"} {
		own[name] = filepath.Join(dirOfTests(t), name)
	}
	var probes []Probe
	for _, p := range Catalogue() {
		if p.Stage == Shared && p.elsewhere(thisPlatform()) == "" {
			probes = append(probes, p)
		}
	}
	p, got := uncontained(t, Options{Own: own, Home: dirOfTests(t)}, probes)
	for _, pr := range probes {
		o := got[pr.ID]
		// What depends on the machine, its kernel, its user or its way out.
		depends := pr.ID == "devices-open" || pr.ID == "files-xattr" || pr.ID == "files-symlink" || pr.ID == "files-plant-symlink" || pr.ID == "files-cgroup" || pr.ID == "files-mounts" || pr.ID == "processes-affinity" ||
			strings.HasPrefix(pr.ID, "net-") || strings.HasPrefix(pr.ID, "kernel-") || strings.HasPrefix(pr.ID, "capabilities-") || strings.HasPrefix(pr.ID, "no-new-")
		seen := p.sight(pr, o)
		switch {
		case strings.HasPrefix(o.Sign, "exception:"), !o.Ran:
			t.Errorf("%s is not written for this system: %+v", pr.ID, o)
		case !o.OK && depends:
			t.Logf("%s proves nothing here: %s %s %s", pr.ID, o.Step, o.Sign, o.Detail)
		case !o.OK:
			t.Errorf("%s does not get through with nothing around it: %+v", pr.ID, o)
		case pr.Witness != Program && seen != SeenYes:
			t.Errorf("%s says it got through, and the yard saw %s", pr.ID, seen)
		}
	}
}

// TestLimitControlsHere: with nothing around it, nothing is limited.
func TestLimitControlsHere(t *testing.T) {
	y, err := openYard(Options{Root: dirOfTests(t), Python: pythonOfTests(t), Environ: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := y.close(); err != nil {
			t.Error(err)
		}
	})
	l := limiting{stage: stage{yard: y, options: y.options}, probes: map[string]Probe{}, out: map[string]tried{}}
	for _, p := range Catalogue() {
		if p.Stage == Limits && p.elsewhere(thisPlatform()) == "" && p.ID != cpuProbe {
			l.probes[p.ID] = p
		}
	}
	if l.bare, err = y.plot(inControl, nil); err != nil {
		t.Fatal(err)
	}
	l.controls(t.Context())
	for id, p := range l.probes {
		if o := l.out[id].control; !o.through(p) {
			t.Errorf("%s: %+v", id, o)
		}
	}
}
