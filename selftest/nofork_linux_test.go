package selftest

import (
	"os/exec"
	"testing"
)

// TestWithoutFork: what is written for every system gets through in a Python that has
// no fork, no resource limits and no file control, as that of one system has none.
func TestWithoutFork(t *testing.T) {
	var probes []Probe
	for _, p := range everyProbe() {
		if p.Stage == Shared && len(p.Systems) == 0 {
			probes = append(probes, p)
		}
	}
	own := map[string]string{}
	for _, name := range []string{"state", "config", "runtime", "data", "cache"} {
		own[name] = t.TempDir()
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal(err)
	}
	y := mustYard(t, Options{Own: own, Home: t.TempDir(), Root: t.TempDir(), Python: python})
	defer y.close()
	p, err := y.plot("control", probes)
	if err != nil {
		t.Fatal(err)
	}
	source, err := program(p.targets(), probes)
	if err != nil {
		t.Fatal(err)
	}
	const lacking = "import os, sys\ndel os.fork\nsys.modules['fcntl'] = sys.modules['resource'] = None\n"
	stdout, err := y.control(t.Context(), append([]byte(lacking), source...), p)
	if err != nil {
		t.Fatal(err)
	}
	p.believed(stdout)
	got := outcomes(stdout)
	for _, pr := range probes {
		o := got[pr.ID]
		outward := pr.ID == "net-metadata" || pr.ID == "net-test-net" || pr.ID == "net-ipv6" // a machine without a way out
		if seen := p.sight(pr, o); !outward && (!o.OK || pr.Witness != Program && seen != SeenYes) {
			t.Errorf("%s: %+v, seen %s", pr.ID, o, seen)
		}
	}
}
