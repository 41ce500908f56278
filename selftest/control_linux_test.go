package selftest

import (
	"strings"
	"testing"
)

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
