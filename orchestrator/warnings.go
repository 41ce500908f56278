package orchestrator

import (
	"fmt"
	"slices"
	"strings"

	"brig/orchestrator/sandbox"
)

// Warnings words everything that a person must know about the containment, the
// gravest first. Every surface shows these sentences and writes none of its
// own. A posture without layers means that no instance exists yet; then the
// forecast of the resolution speaks.
func Warnings(r Resolution, p sandbox.Posture) []string {
	if r.Err != nil {
		return []string{"nothing runs: " + r.Err.Reason}
	}
	bound := len(p.Layers) > 0
	var out []string
	switch {
	case r.Mode == sandbox.ModeOff:
		out = append(out, notSandboxed+": host.sandbox is off, so code runs as your user, with nothing between it and your files")
	case developmentOnly(r.Resolved):
		out = append(out, "not contained: the "+string(r.Resolved)+" backend is for development only")
	case bound && exposed(r, p):
		out = append(out, "not contained: neither files nor system calls are restricted, so code runs as your user, with nothing between it and your files")
	}
	if len(r.Opened) > 0 {
		out = append(out, fmt.Sprintf("open: nothing restricts %s, because %s is %s; to close it, set %s to %s",
			strings.Join(names(r.Opened), " and "), openedBy, sandbox.NetworkAllow, openedBy, sandbox.NetworkDeny))
	}
	if r.Degraded {
		out = append(out, "degraded: "+strings.Join(degradedBy(r), ", and "))
	}
	weak := p.Warnings()
	if !bound {
		weak = sentences(r.Gaps)
	}
	for _, sentence := range weak {
		out = append(out, "weakened: "+sentence)
	}
	return out
}

// notSandboxed is what every surface says where host.sandbox is off.
const notSandboxed = "not sandboxed"

// openedBy is the setting that opens layers.
const openedBy = "host.network"

func names(layers []sandbox.Layer) []string {
	var out []string
	for _, l := range layers {
		out = append(out, string(l.ID))
	}
	return out
}

// exposed says that nothing of substance stands between the code and the user's rights.
func exposed(r Resolution, p sandbox.Posture) bool {
	return r.Mode == sandbox.ModeOff || developmentOnly(r.Resolved) || uncontained(p.Layers)
}

func degradedBy(r Resolution) []string {
	var reasons []string
	for _, refusal := range r.Refusals {
		reasons = append(reasons, refusal.Reason)
	}
	return reasons
}

// ToolsBacked tells whether a tool whose name promises a sandbox may be offered
// on top of that posture.
func ToolsBacked(p sandbox.Posture, r Resolution) bool {
	if r.Err != nil || r.Mode == sandbox.ModeOff || developmentOnly(r.Resolved) {
		return false
	}
	needed := []sandbox.LayerID{sandbox.FSWrite, sandbox.FSRead, sandbox.NetOutbound, sandbox.TreeKill}
	return !slices.ContainsFunc(needed, func(id sandbox.LayerID) bool {
		return p.Layer(id).State != sandbox.Enforced
	})
}

// judge replaces the forecast by what an instance was seen to enforce, and
// refuses what the resolution would have refused had it known.
func judge(r Resolution, p sandbox.Posture, acknowledged, trial bool) Resolution {
	r.Gaps, r.Opened = p.Weakened(), opened(r.Resolved, p)
	r.Weakened = len(r.Gaps) > 0 || r.Mode == sandbox.ModeOff
	var refusal *Refusal
	switch {
	case r.Mode == sandbox.ModeOff || developmentOnly(r.Resolved) || trial:
	case r.Mode == sandbox.ModeRequire && len(r.Gaps) > 0:
		refusal = incomplete(r.Gaps)
	case uncontained(p.Layers):
		refusal = unacknowledged(r.Resolved, acknowledged)
	}
	if refusal != nil {
		r.Refusals = append(slices.Clone(r.Refusals), *refusal)
		r.Err = refused(r.Refusals)
		r.Resolved, r.Degraded, r.Opened = "", false, nil
	}
	return r
}
