package hostfallback

import (
	"strings"
	"testing"

	"brig/hostfallback/confine"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// keptWindows is the evidence of a Windows that keeps everything it is told.
func keptWindows() evidence {
	p := confine.Policy{
		Mode: confine.ModeBestEffort, Network: confine.NetworkDeny, Workspace: `C:\w`, Scratch: `C:\s`,
		Limits: confine.Limits{Memory: 2 << 30, Processes: 64, MilliCPU: 1000},
	}
	return evidence{
		report: confine.Report{
			UID: -1, Variables: []string{"PATH", "SystemRoot", confine.Marker},
			Windows: &confine.Windows{
				Job: confine.Layer{Applied: true}, Born: true, Want: p.Job(), Got: p.Job(), WantRate: 2500, GotRate: 2500,
				Integrity: confine.SIDLow, Privileges: []string{confine.PrivilegeKept}, Labelled: true, Handles: 3,
			},
		},
		watch: confine.Watch{Disk: 1 << 30},
		base:  sandbox.Base{Mode: sandbox.ModeBestEffort},
	}
}

func TestWindowsRows(t *testing.T) {
	type want map[sandbox.LayerID]string // state, and code where there is one
	kept := want{
		sandbox.FSWrite: "partial windows-low-places", sandbox.FSRead: "unsupported windows-reads-open",
		sandbox.NetOutbound: "unsupported windows-network-open", sandbox.NetLoopback: "unsupported windows-network-open",
		sandbox.MemoryLimit: "enforced", sandbox.ProcessLimit: "enforced", sandbox.CPULimit: "enforced",
		sandbox.Capabilities: "enforced", sandbox.TreeKill: "enforced", sandbox.InheritedFDs: "enforced",
		sandbox.Environment: "enforced", sandbox.Signals: "partial windows-low-processes",
		sandbox.SyscallFilter: "unsupported windows-no-syscall-filter", sandbox.DiskLimit: "partial disk-watched-only",
	}
	// What Wine 8 answers: every call succeeds, and nothing reads back.
	lying := func(e *evidence) {
		w := e.report.Windows
		w.Emulated, w.Got, w.GotRate, w.Integrity, w.Labelled = "wine 8.0", confine.Job{}, 0, "S-1-16-12288", false
		w.Unlabelled = "access is denied"
		w.Privileges = []string{confine.PrivilegeKept, "SeDebugPrivilege"}
	}
	for _, c := range []struct {
		name   string
		change func(*evidence)
		want   want
	}{
		{"kept", func(*evidence) {}, kept},
		{"emulated", lying, want{
			sandbox.FSWrite: "off emulated-windows", sandbox.MemoryLimit: "off emulated-windows", sandbox.ProcessLimit: "off emulated-windows",
			sandbox.CPULimit: "off emulated-windows", sandbox.Capabilities: "off emulated-windows", sandbox.Signals: "off emulated-windows",
			sandbox.TreeKill: "partial emulated-windows", sandbox.FSRead: "unsupported windows-reads-open",
		}},
		{"windows that does not keep it", func(e *evidence) { lying(e); e.report.Windows.Emulated = "" }, want{
			sandbox.FSWrite: "off probe-disagrees", sandbox.MemoryLimit: "off probe-disagrees", sandbox.ProcessLimit: "off probe-disagrees",
			sandbox.TreeKill: "partial probe-disagrees",
		}},
		{"another limit", func(e *evidence) {
			e.report.Windows.Got.JobMemory++
			e.report.Windows.Got.ActiveProcesses = 0
		}, want{sandbox.MemoryLimit: "off probe-disagrees", sandbox.ProcessLimit: "off probe-disagrees"}},
		{"a limit of each process is missing", func(e *evidence) { e.report.Windows.Got.ProcessMemory = 0 }, want{sandbox.MemoryLimit: "off probe-disagrees"}},
		{"medium", func(e *evidence) { e.report.Windows.Integrity = confine.SIDMedium }, want{
			sandbox.FSWrite: "off probe-disagrees", sandbox.Signals: "off probe-disagrees", sandbox.Ptrace: "off probe-disagrees", sandbox.MemoryLimit: "enforced",
		}},
		{"no job", func(e *evidence) { e.report.Windows.Job = confine.Layer{Code: confine.CodeJobRefused} }, want{
			sandbox.TreeKill: "off windows-job-refused", sandbox.MemoryLimit: "off windows-job-refused", sandbox.ProcessLimit: "off windows-job-refused",
		}},
		{"breakaway", func(e *evidence) { e.report.Windows.Got.Flags |= confine.JobBreakaway }, want{sandbox.TreeKill: "partial probe-disagrees"}},
		{"off", func(e *evidence) {
			e.base.Mode = sandbox.ModeOff
			w := e.report.Windows
			w.Want.UI, w.Got.UI, w.Integrity, w.Labelled = 0, 0, confine.SIDMedium, false
		}, want{
			sandbox.FSWrite: "off host-sandbox-off", sandbox.FSRead: "off host-sandbox-off", sandbox.Signals: "off host-sandbox-off",
			sandbox.MemoryLimit: "enforced", sandbox.TreeKill: "enforced", sandbox.InheritedFDs: "enforced",
		}},
		{"allow", func(e *evidence) { e.base.Network = sandbox.NetworkAllow }, want{sandbox.NetOutbound: "off host-network-allow"}},
		{"written outside", func(e *evidence) {
			e.observed = &wire.Observed{Attempts: map[string]string{"write_outside": "ok", "kill_parent": "ok"}}
		}, want{sandbox.FSWrite: "off probe-disagrees", sandbox.Signals: "off probe-disagrees"}},
		{"refused from inside", func(e *evidence) {
			e.observed = &wire.Observed{Attempts: map[string]string{"write_outside": "EACCES", "kill_parent": "EACCES"}}
		}, want{sandbox.FSWrite: "partial windows-low-places", sandbox.Signals: "partial windows-low-processes"}},
		{"foreign variable", func(e *evidence) { e.report.Variables = append(e.report.Variables, "AWS_SECRET") }, want{sandbox.Environment: "off foreign-variable"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := keptWindows()
			c.change(&e)
			rows := layers(e)
			if err := sandbox.Complete(rows); err != nil {
				t.Fatal(err)
			}
			p := sandbox.Posture{Layers: rows}
			for id, want := range c.want {
				l := p.Layer(id)
				if got := strings.TrimSpace(string(l.State) + " " + l.Code); got != want {
					t.Errorf("%s: got %q, want %q (%s; %s)", id, got, want, l.Reason, l.Evidence)
				}
			}
			for _, l := range rows {
				if l.State != sandbox.Enforced && l.Remedy == "" {
					t.Errorf("%s is %s (%s) without a remedy", l.ID, l.State, l.Code)
				}
			}
		})
	}
}

// TestWindowsIsWeakened: what an integrity level cannot give is promised all the
// same, so that nobody takes a session there for what it is not.
func TestWindowsIsWeakened(t *testing.T) {
	base := sandbox.Base{Mode: sandbox.ModeBestEffort}
	p := sandbox.Posture{Layers: layers(keptWindows()), Promised: promisedOnWindows(base)}
	weak := map[sandbox.LayerID]bool{}
	for _, l := range p.Weakened() {
		weak[l.ID] = true
	}
	for _, id := range []sandbox.LayerID{sandbox.FSRead, sandbox.NetOutbound} {
		if !weak[id] {
			t.Errorf("%s is not among the weakened: %v", id, weak)
		}
	}
	for _, id := range []sandbox.LayerID{sandbox.MemoryLimit, sandbox.ProcessLimit, sandbox.TreeKill} {
		if weak[id] {
			t.Errorf("%s is weakened although it read back", id)
		}
	}
}

func TestWindowsReportMustFitThePlan(t *testing.T) {
	p := confine.Plan{Policy: confine.Policy{Mode: confine.ModeBestEffort, Limits: confine.Limits{Memory: 2 << 30, Processes: 64, MilliCPU: 1000}}}
	good := *keptWindows().report.Windows
	if err := agreesOnWindows(p, good); err != nil {
		t.Errorf("a report that fits: %v", err)
	}
	for name, change := range map[string]func(*confine.Plan, *confine.Windows){
		"another job":     func(_ *confine.Plan, w *confine.Windows) { w.Want.JobMemory = 0 },
		"more handles":    func(_ *confine.Plan, w *confine.Windows) { w.Handles = 4 },
		"beyond the plan": func(p *confine.Plan, w *confine.Windows) { p.Mode = confine.ModeOff; w.Want.UI = 0 },
	} {
		plan, w := p, good
		change(&plan, &w)
		if agreesOnWindows(plan, w) == nil {
			t.Errorf("%s: the report was accepted", name)
		}
	}
}
