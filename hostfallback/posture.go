package hostfallback

import (
	"slices"

	"brig/hostfallback/confine"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// evidence is everything a posture is made of: what the helper reported and
// what the runner saw from inside. Without observed it is a forecast.
type evidence struct {
	report   confine.Report
	watch    confine.Watch
	observed *wire.Observed
	// outside are the names of brig's own namespaces, for comparison with those
	// that the runner is in; nil where there are none or nothing was observed.
	outside map[string]string
	// sockets are socket files in the granted trees that somebody listens on.
	sockets []string
	base    sandbox.Base
}

// promised are the layers that the host sandbox stands for. Limits of memory,
// processors and disk are held as well as an unprivileged user can hold them,
// and reported, but not promised. Nobody promises what was switched off by name.
func promised(base sandbox.Base) []sandbox.LayerID {
	if isWindows {
		return promisedOnWindows(base)
	}
	ids := []sandbox.LayerID{
		sandbox.FSWrite, sandbox.FSRead, sandbox.NetOutbound, sandbox.UnixSockets, sandbox.NoNewPrivs,
		sandbox.SyscallFilter, sandbox.Signals, sandbox.Ptrace, sandbox.InheritedFDs, sandbox.Environment,
		sandbox.TreeKill,
	}
	ids = slices.DeleteFunc(ids, func(id sandbox.LayerID) bool { return slices.Contains(unknownHere(), id) })
	if base.Network == sandbox.NetworkAllow {
		ids = slices.DeleteFunc(ids, func(id sandbox.LayerID) bool { return id == sandbox.NetOutbound })
	}
	return ids
}

// layers turns evidence into one row per layer. It does no I/O: what a row says
// for a kernel that is not at hand is a matter of a table test.
func layers(e evidence) []sandbox.Layer {
	e.base.Limits = e.base.Limits.WithDefaults()
	rows := make([]sandbox.Layer, 0, len(sandbox.Layers()))
	for _, id := range sandbox.Layers() {
		var row sandbox.Layer
		if e.report.Windows != nil {
			row = e.onWindows(id)
			row.Evidence = words(row.Evidence, e.reportedOnWindows(id))
		} else {
			row = e.row(id)
			row.Evidence = words(row.Evidence, e.reported(id))
		}
		row.ID = id
		rows = append(rows, row)
	}
	return rows
}

func (e evidence) row(id sandbox.LayerID) sandbox.Layer {
	if e.report.Seatbelt != nil {
		return e.seatbeltRow(id)
	}
	switch id {
	case sandbox.FSWrite:
		return e.fsWrite()
	case sandbox.FSRead:
		return e.fsRead()
	case sandbox.NetOutbound:
		return e.network("other machines can be reached")
	case sandbox.NetLoopback:
		return e.network("services of this machine can be reached")
	case sandbox.UnixSockets:
		return e.unixSockets()
	case sandbox.ProcessLimit:
		return e.processLimit()
	case sandbox.MemoryLimit:
		return e.memoryLimit()
	case sandbox.CPULimit:
		return e.cpuLimit()
	case sandbox.DiskLimit:
		return e.diskLimit()
	case sandbox.OutputLimit:
		return e.outputLimit()
	case sandbox.WallClock:
		return e.wallClock()
	case sandbox.NoNewPrivs:
		return e.noNewPrivs()
	case sandbox.Capabilities:
		return e.capabilities()
	case sandbox.SyscallFilter:
		return e.syscallFilter()
	case sandbox.Signals:
		return e.signals()
	case sandbox.Ptrace:
		return e.ptrace()
	case sandbox.Seclusion:
		return e.seclusion()
	case sandbox.InheritedFDs:
		return e.inheritedFDs()
	case sandbox.Environment:
		return e.environment()
	case sandbox.Devices:
		return e.devices()
	case sandbox.KernelSurface:
		return e.kernelSurface()
	case sandbox.TreeKill:
		return e.treeKill()
	}
	panic("BUG: no row for layer " + string(id))
}

func enforced(mechanism string) sandbox.Layer {
	return sandbox.Layer{State: sandbox.Enforced, Mechanism: mechanism}
}

// partial is a layer that holds with a gap: "<gap>, because <cause>".
func partial(mechanism, gap string, r reason) sandbox.Layer {
	return sandbox.Layer{State: sandbox.Partial, Mechanism: mechanism, Code: r.code, Reason: because(gap, r), Remedy: r.remedy}
}

// off is a layer that could hold here and does not.
func off(code, text string) sandbox.Layer {
	r := why(code)
	if text == "" {
		text = r.cause
	}
	return sandbox.Layer{State: sandbox.Off, Code: r.code, Reason: text, Remedy: r.remedy}
}

func because(gap string, r reason) string {
	if gap == "" {
		return r.cause
	}
	return gap + ", because " + r.cause
}

// missing is a layer that nothing holds: what of it was not applied first, which
// gives code and remedy, and what else could have held it.
func missing(first confine.Layer, others ...confine.Layer) sandbox.Layer {
	r := whyNot(first)
	row := sandbox.Layer{State: sandbox.Unsupported, Code: r.code, Reason: r.cause, Remedy: r.remedy}
	switch r.code {
	case confine.CodeOff, confine.CodeNotAsked, codeNotApplied:
		row.State = sandbox.Off
	}
	for _, l := range others {
		if other := whyNot(l); l.Code != "" && l.Code != first.Code && l.Code != confine.CodeNotAsked && other.code != codeNotApplied {
			row.Reason += ", and " + other.cause
		}
	}
	return row
}

// saw is the outcome of one of the runner's attempts; empty where there was none.
func (e evidence) saw(attempt string) string {
	if e.observed == nil {
		return ""
	}
	return e.observed.Attempts[attempt]
}

// status is a field of /proc/self/status as the runner read it.
func (e evidence) status(field string) string {
	if e.observed == nil {
		return ""
	}
	return e.observed.Status[field]
}
