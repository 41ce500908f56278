package selftest

import (
	"os/exec"
	"strings"
	"testing"
)

// uncontained makes the attempts with nothing around them, in a yard of their own.
func uncontained(t *testing.T, o Options, probes []Probe) (*plot, map[string]Outcome) {
	t.Helper()
	var err error
	if o.Python, err = exec.LookPath("python3"); err != nil {
		t.Fatal(err)
	}
	o.Root = t.TempDir()
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

// TestControls: uncontained, every attempt on files, processes, rights, secrets and
// the control stream gets through, and the outside sees it where there is anything to
// see. Otherwise a session in which it fails would prove nothing.
func TestControls(t *testing.T) {
	own := map[string]string{}
	for _, name := range []string{"state", "config", "runtime", "data", "cache"} {
		own[name] = t.TempDir()
	}
	var probes []Probe
	for _, area := range [][]Probe{filesProbes(), processProbes(), secretProbes(), controlProbes(), seclusionProbes()} {
		probes = append(probes, area...)
	}
	p, got := uncontained(t, Options{Own: own, Home: t.TempDir()}, probes)
	for _, pr := range probes {
		o := got[pr.ID]
		// Privileges, devices and attributes depend on the user and on the machine.
		depends := pr.ID == "devices-open" || pr.ID == "files-xattr" || strings.HasPrefix(pr.ID, "capabilities-") || strings.HasPrefix(pr.ID, "no-new-")
		seen := p.sight(pr, o)
		switch {
		case !o.OK && depends:
			t.Logf("%s proves nothing here: %s %s %s", pr.ID, o.Step, o.Sign, o.Detail)
		case !o.OK:
			t.Errorf("%s does not get through with nothing around it: %+v", pr.ID, o)
		case pr.Witness != Program && seen != SeenYes:
			t.Errorf("%s says it got through, and the yard saw %s", pr.ID, seen)
		}
	}
}
