package hostfallback

import (
	"strings"
	"testing"

	"brig/hostfallback/confine"
	"brig/orchestrator/sandbox"
)

// TestSeclusion: every combination of the parts that hide something, and why there is none.
func TestSeclusion(t *testing.T) {
	applied := confine.Layer{Applied: true}
	refused := func(code string) confine.Layer { return confine.Layer{Code: code, Errno: "EPERM"} }
	for _, c := range []struct {
		whole                  confine.Layer
		root, process, network confine.Layer
		want, says             string
	}{
		{applied, applied, applied, applied, "enforced", ""},
		{applied, refused(confine.CodeMountRefused), applied, applied, "partial visible-files", "a file exists"},
		{applied, applied, refused(confine.CodeProcMasked), applied, "partial visible-processes", "command lines"},
		{applied, applied, applied, refused(confine.CodeNetRefused), "partial visible-network", "listens"},
		{applied, applied, applied, confine.Layer{Code: confine.CodeNetShared}, "partial visible-network", "host.network is allow"},
		{applied, refused(confine.CodeMountRefused), refused(confine.CodePIDRefused), applied, "partial visible-files-processes", "EPERM"},
		{applied, refused(confine.CodeMountRefused), applied, confine.Layer{Code: confine.CodeNetShared}, "partial visible-files-network", ""},
		{applied, applied, refused(confine.CodePIDRefused), refused(confine.CodeNetRefused), "partial visible-processes-network", ""},
		{applied, confine.Layer{}, confine.Layer{}, confine.Layer{}, "off not-applied", ""},
		{refused(confine.CodeUsernsSysctl), confine.Layer{}, confine.Layer{}, confine.Layer{}, "off userns-sysctl", "switched off"},
		{confine.Layer{Code: confine.CodeOff}, confine.Layer{}, confine.Layer{}, confine.Layer{}, "off host-sandbox-off", ""},
	} {
		e := evidence{base: testBaseOf(sandbox.ModeBestEffort)}
		e.report.Namespace = c.whole
		e.report.Namespaces = confine.Namespaces{Root: c.root, Process: c.process, Network: c.network}
		row := e.seclusion()
		if got := strings.TrimSpace(string(row.State) + " " + row.Code); got != c.want || !strings.Contains(row.Reason, c.says) {
			t.Errorf("%+v: %s (%s), want %s", c, got, row.Reason, c.want)
		}
		if row.State != sandbox.Enforced && row.Remedy == "" {
			t.Errorf("%s: a gap without a remedy", c.want)
		}
		if row.State == sandbox.Partial && row.Mechanism == "" {
			t.Errorf("%s: nothing holds what is said to be partly held", c.want)
		}
	}
}
