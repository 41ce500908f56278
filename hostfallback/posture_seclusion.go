package hostfallback

import (
	"strings"

	"brig/hostfallback/confine"
	"brig/orchestrator/sandbox"
)

// seclusion is that nothing outside can be seen or named: no file by its path, no
// process by its number, no socket by its address. Rules about access, which are
// Landlock's and the filter's, do not hide anything; only namespaces do.
func (e evidence) seclusion() sandbox.Layer {
	n := e.report.Namespaces
	var holds []hold
	var parts, seen []string
	var first confine.Layer // of the parts that are missing
	for _, p := range []struct {
		there      bool
		hold       hold
		layer      confine.Layer
		code, seen string
	}{
		{e.root(), e.byRoot(), n.Root, "files", "that a file exists, its size and its times"},
		{e.processes(), e.byProcesses(), n.Process, "processes", "processes with their command lines, and the processors that they may run on can be changed"},
		{e.ownNetwork(), e.byNetwork(), n.Network, "network", "what listens and is connected on this machine"},
	} {
		if p.there {
			holds = append(holds, p.hold)
			continue
		}
		if len(parts) == 0 {
			first = e.part(p.layer)
		}
		parts, seen = append(parts, p.code), append(seen, p.seen)
	}
	gap, r := "code sees "+strings.Join(seen, "; and "), whyNot(first)
	switch len(holds) {
	case 3:
		return e.by(sandbox.Layer{State: sandbox.Enforced}, holds...)
	case 0:
		if r.code == confine.CodeOff {
			return missing(first)
		}
		return sandbox.Layer{State: sandbox.Off, Code: r.code, Reason: because(gap, r), Remedy: r.remedy}
	}
	r.code = codeVisible + strings.Join(parts, "-")
	return e.by(partial("", gap, r), holds...)
}
