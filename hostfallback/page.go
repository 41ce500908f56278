package hostfallback

import (
	"fmt"
	"slices"
	"strings"

	"brig/hostfallback/confine"
	"brig/orchestrator/sandbox"
)

// Page is the part of docs/host.md that is made from what the posture says: the
// rows of some machines, and the words of every reason.
func Page() string {
	var b strings.Builder
	b.WriteString("## What each layer is held by\n\n")
	b.WriteString("Landlock of kernel 6.12 or newer, the filter, all namespaces, and a control group that is delegated to the user.\n")
	b.WriteString("Layers with `*` are promised.\n\n| layer | state | held by |\n|---|---|---|\n")
	whole := machines()[0]
	rows, names := layers(whole.evidence), promised(whole.base)
	for _, row := range rows {
		name, held := string(row.ID), row.Mechanism
		if slices.Contains(names, row.ID) {
			name += " *"
		}
		if row.State != sandbox.Enforced {
			held += "; `" + row.Code + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", name, row.State, cell(held))
	}
	b.WriteString("\n### With less than that\n\nWhat differs. An empty cell is as above.\n\n| layer |")
	for _, m := range machines()[1:] {
		b.WriteString(" " + m.name + " |")
	}
	b.WriteString("\n|---" + strings.Repeat("|---", len(machines())-1) + "|\n")
	for i, row := range rows {
		line, differs := "| "+string(row.ID)+" |", false
		for _, m := range machines()[1:] {
			other := layers(m.evidence)[i]
			if other.State == row.State && other.Code == row.Code {
				line += " |"
				continue
			}
			differs = true
			line += " " + string(other.State)
			if other.Code != "" {
				line += " `" + other.Code + "`"
			}
			line += " |"
		}
		if differs {
			b.WriteString(line + "\n")
		}
	}
	b.WriteString("\n## Reasons and what to do\n\n`N` stands for the version of Landlock that was used. A sentence says what is open, and then one of these.\n\n")
	b.WriteString("| code | because | what helps |\n|---|---|---|\n")
	for _, r := range reasons() {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", r.code, cell(r.cause), cell(r.remedy))
	}
	return b.String()
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

// machine is one that the page shows.
type machine struct {
	name string
	evidence
}

// machines are the whole one first, and then those that many people have.
func machines() []machine {
	limits := sandbox.DefaultLimits()
	yes, no := confine.Layer{Applied: true}, func(code string) confine.Layer { return confine.Layer{Code: code} }
	with := func(name string, change func(*evidence)) machine {
		e := evidence{
			base:  sandbox.Base{Mode: sandbox.ModeBestEffort, Network: sandbox.NetworkDeny, Limits: limits},
			watch: confine.Watch{Subreaper: true, Memory: limits.Memory, Processes: limits.Processes, Disk: limits.Workspace},
			report: confine.Report{
				UID: 1000, Namespace: yes, Namespaces: confine.Namespaces{Root: yes, Process: yes, Network: yes}, PrivateShm: true,
				Cgroup: confine.Cgroup{Layer: yes, Path: "/brig", Memory: limits.Memory, Processes: limits.Processes, MilliCPU: limits.MilliCPU, Kill: true},
				Limits: map[string]uint64{"core": 0, "data": uint64(limits.Memory), "fsize": uint64(min(limits.FileSize, limits.Workspace)), "nofile": uint64(limits.OpenFiles), "nproc": uint64(limits.Processes)},
				CPUs:   8, NoNewPrivs: true, CapEff: noCapabilities, Kept: []int{0, 1, 2},
				Landlock: confine.Landlock{Layer: yes, ABI: 7, Used: 7, Net: true},
				Seccomp:  confine.Seccomp{Layer: yes, Arch: "x86-64", Filter: confine.Filter{Metadata: true, Unix: true}, Length: 200, Hash: "…"},
			},
		}
		change(&e)
		return machine{name, e}
	}
	noCgroup := func(e *evidence) {
		e.report.Cgroup, e.report.Narrowed = confine.Cgroup{Layer: no(confine.CodeCgroupDelegation)}, true
	}
	noNamespaces := func(code string) func(*evidence) {
		return func(e *evidence) {
			noCgroup(e)
			e.report.Namespace, e.report.Namespaces = no(code), confine.Namespaces{}
			e.report.PrivateShm, e.report.SharedShm, e.report.Seccomp.Filter.Unix = false, true, false
		}
	}
	noLandlock := func(e *evidence) { e.report.Landlock = confine.Landlock{Layer: no(confine.CodeLandlockNotBoot)} }
	return []machine{
		with("everything", func(*evidence) {}),
		with("no control group", noCgroup),
		with("user namespaces refused, as by AppArmor", noNamespaces(confine.CodeUsernsAppArmor)),
		with("in a container: a private /proc refused", func(e *evidence) {
			noCgroup(e)
			e.report.Cgroup.Layer, e.report.Namespaces.Process = no(confine.CodeCgroupReadOnly), no(confine.CodeProcMasked)
		}),
		with("no Landlock", func(e *evidence) { noCgroup(e); noLandlock(e) }),
		with("Landlock of kernel 5.13 and no namespaces", func(e *evidence) {
			noNamespaces(confine.CodeUsernsSysctl)(e)
			e.report.Landlock.ABI, e.report.Landlock.Used, e.report.Landlock.Net = 1, 1, false
		}),
		with("the filter alone", func(e *evidence) {
			noNamespaces(confine.CodeUsernsRefused)(e)
			noLandlock(e)
			e.report.SharedShm = false
		}),
		with("as root, no control group", func(e *evidence) { noCgroup(e); e.report.UID = 0 }),
		with("`host.network = \"loopback\"`", func(e *evidence) {
			noCgroup(e)
			e.base.Network, e.report.Namespaces.Loopback, e.report.Landlock.Net, e.report.Seccomp.Filter.Inet = sandbox.NetworkLoopback, true, false, true
		}),
		with("`host.network = \"allow\"`", func(e *evidence) {
			noCgroup(e)
			e.base.Network, e.report.Namespaces.Network, e.report.Landlock.Net, e.report.Seccomp.Filter.Inet = sandbox.NetworkAllow, no(confine.CodeNetShared), false, true
		}),
		with("`host.sandbox = \"off\"`", func(e *evidence) {
			noNamespaces(confine.CodeOff)(e)
			e.base.Mode, e.report.SharedShm = sandbox.ModeOff, false
			e.report.Landlock, e.report.Seccomp = confine.Landlock{Layer: no(confine.CodeOff)}, confine.Seccomp{Layer: no(confine.CodeOff)}
		}),
	}
}
