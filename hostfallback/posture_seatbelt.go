package hostfallback

import (
	"fmt"
	"slices"

	"brig/hostfallback/confine"
	"brig/orchestrator/sandbox"
)

// The rows of a Mac. They are made from the report like all others, so what they
// say for each state is tested on any system.

// Codes of reasons that only a Mac has, beside those of the report.
const (
	codeMacMemory     = "macos-no-memory-limit"
	codeMacCPU        = "macos-no-cpu-limit"
	codeMacFilter     = "macos-no-syscall-filter"
	codeMacCaps       = "macos-no-capabilities"
	codeMacNamespaces = "macos-no-namespaces"
	codeMacTree       = "macos-hidden-daemons"
)

// seatbeltReasons are the words of all of them.
func seatbeltReasons() []reason {
	return []reason{
		{confine.CodeSeatbeltMissing, "there is no " + confine.SandboxExec + " on this Mac", remedyDocker},
		{
			confine.CodeSeatbeltNested, "the application that started brig has confined it already, and macOS lets no program into a second profile",
			"start brig from Terminal, then: brig doctor",
		},
		{confine.CodeSeatbeltProfile, "this macOS does not take the profile, or nothing can run in it", "brig selftest --backend host, and send what it prints; or start a Docker engine"},
		{confine.CodeSeatbeltOpen, "the profile was applied, and a file that it denies could be read all the same", "start a Docker engine, and send what this prints: brig selftest --backend host"},
		{confine.CodeMacUnverified, "nobody has sent a report of the self-test from a Mac yet", "brig selftest --backend host"},
		{codeMacMemory, "macOS refuses or ignores every limit of memory", remedyDocker},
		{codeMacCPU, "macOS does not divide processors among programs", remedyDocker},
		{codeMacFilter, "macOS has no filter of system calls that a program could use; the profile decides by operation", remedyDocker},
		{codeMacCaps, "macOS has no capabilities: root has all rights, and everybody else those of the user", "do not run brig as root"},
		{codeMacNamespaces, "macOS has no namespaces", remedyDocker},
		{codeMacTree, "macOS does not tell who made a process, and this one does not tell which processes are in a profile", remedyDocker},
	}
}

// seatbeltRow is the row of a layer on a Mac.
func (e evidence) seatbeltRow(id sandbox.LayerID) sandbox.Layer {
	s := e.report.Seatbelt
	whole := sandbox.Layer{State: sandbox.Enforced}
	switch id {
	case sandbox.ProcessLimit:
		return e.processLimit()
	case sandbox.MemoryLimit:
		row := e.by(partial("", "all processes together are only measured, "+memoryPeriod()+", and ended above the limit", why(codeMacMemory)),
			watchedAt(e.watch.Memory), hold{name: "by " + s.Measure})
		return e.limited(e.watch.Memory > 0, row)
	case sandbox.CPULimit:
		return off(codeMacCPU, "")
	case sandbox.DiskLimit:
		row := e.by(partial("", "all files together are only measured, "+diskPeriod()+", and the session is ended above the limit", why(codeDiskWatched)),
			hold{name: fmt.Sprintf("rlimit fsize=%d", e.report.Limits["fsize"])}, watchedAt(e.watch.Disk))
		row.Reason += "; " + unwatchable() + " it is ended as well; not counted are deleted files that are still open"
		return e.limited(e.watch.Disk > 0, row, "fsize")
	case sandbox.OutputLimit:
		return e.outputLimit()
	case sandbox.WallClock:
		return e.wallClock()
	case sandbox.InheritedFDs:
		return e.inheritedFDs()
	case sandbox.Environment:
		return e.environment()
	case sandbox.TreeKill:
		return e.seatbeltTree()
	case sandbox.Capabilities:
		return unsupported(codeMacCaps)
	case sandbox.SyscallFilter:
		return unsupported(codeMacFilter)
	}
	allowed := e.base.Network == sandbox.NetworkAllow
	switch {
	case id == sandbox.NetOutbound && allowed:
		return off(confine.CodeNetShared, "host.network is allow: other machines can be reached")
	case id == sandbox.NetLoopback && allowed:
		return off(confine.CodeNetShared, "host.network is allow: services of this machine can be reached")
	case !s.Applied:
		return missing(s.Layer)
	}
	switch id {
	case sandbox.FSWrite:
		return e.by(whole, e.bySeatbelt("", "write_root", "chmod_root"))
	case sandbox.FSRead:
		return e.by(whole, e.bySeatbelt("", "list_outside", "stat_outside"))
	case sandbox.NetOutbound, sandbox.NetLoopback:
		return e.by(whole, e.bySeatbelt("", "bind_loopback"))
	case sandbox.UnixSockets:
		return e.by(whole, e.bySeatbelt(" on paths"))
	case sandbox.NoNewPrivs:
		return e.by(whole, e.bySeatbelt(" starts no setuid program"))
	case sandbox.Signals:
		return e.by(whole, e.bySeatbelt("", "kill_parent"))
	case sandbox.Ptrace:
		return e.by(whole, e.bySeatbelt(" on task ports, process information and arguments"))
	case sandbox.Devices:
		return e.by(whole, e.bySeatbelt(": null, zero, random, urandom"))
	case sandbox.Seclusion:
		return e.by(partial("", "that a file or a process exists can be found out, path by path and number by number, but no more of it", why(codeMacNamespaces)),
			e.bySeatbelt("", "stat_outside"))
	case sandbox.KernelSurface:
		return e.by(partial("", "", why(codeSharedKernel)), e.bySeatbelt(" on services, drivers and settings of the kernel"))
	}
	panic("BUG: no row for layer " + string(id))
}

func unsupported(code string) sandbox.Layer {
	r := why(code)
	return sandbox.Layer{State: sandbox.Unsupported, Code: r.code, Reason: r.cause, Remedy: r.remedy}
}

func (e evidence) bySeatbelt(what string, attempts ...string) hold {
	return hold{name: fmt.Sprintf("seatbelt profile %d%s", e.report.Seatbelt.Version, what), attempts: attempts}
}

// seatbeltTree: what daemonises is found as long as it keeps its environment, was
// seen before, or the system tells who is in the profile.
func (e evidence) seatbeltTree() sandbox.Layer {
	table := hold{name: "sweep of the process table by parent, session and mark"}
	switch s := e.report.Seatbelt; {
	case !s.Applied:
		return e.by(e.endable(), table)
	case s.Members:
		return e.by(sandbox.Layer{State: sandbox.Enforced}, table, hold{name: "by membership in the profile"})
	}
	return e.by(partial("", "a process may survive that left its session, lost its parent unseen and cleared its environment", why(codeMacTree)), table)
}

// seatbeltReported is what was read back about a layer on a Mac.
func (e evidence) seatbeltReported(id sandbox.LayerID) string {
	r := e.report
	s := r.Seatbelt
	switch id {
	case sandbox.ProcessLimit:
		return words(e.rlimits("nproc", "nofile"), fmt.Sprintf("watched=%d", e.watch.Processes))
	case sandbox.MemoryLimit:
		return words(e.rlimits("core"), fmt.Sprintf("watched=%d", e.watch.Memory))
	case sandbox.DiskLimit:
		return words(e.rlimits("fsize"), fmt.Sprintf("watched=%d", e.watch.Disk))
	case sandbox.InheritedFDs:
		return fmt.Sprintf("open at exec: %s; closed by it: %d", numbers(r.Kept), r.Closed)
	case sandbox.Environment, sandbox.OutputLimit, sandbox.WallClock, sandbox.CPULimit, sandbox.Capabilities:
		return ""
	case sandbox.TreeKill:
		return fmt.Sprintf("the system tells who is in the profile: %d", bit(s.Members))
	}
	if !s.Applied {
		text := refused("seatbelt", s.Layer)
		if s.Said != "" {
			text += quoted(s.Said)
		}
		return text
	}
	return fmt.Sprintf("seatbelt profile %s, %d parameters; a denied file was refused", s.Hash, s.Parameters)
}

// seatbeltNotes are what is open by design on a Mac.
func (e evidence) seatbeltNotes() []string {
	unverified := why(confine.CodeMacUnverified)
	out := []string{
		"not verified by us on this OS (" + unverified.code + "): " + unverified.cause + "; to see what holds on this one: " + unverified.remedy,
		"the kernel is shared with the machine",
	}
	if e.base.Mode == sandbox.ModeOff {
		out = append([]string{"not sandboxed: host.sandbox is off, and the code runs as the user, with nothing between it and the files"}, out...)
	}
	if e.report.Seatbelt.Applied {
		out = append(out,
			"memory by name (multiprocessing.shared_memory) is refused, because its names are the whole machine's; pools, locks and queues work",
			"a program written into the workspace cannot be started by its path, but its content can be loaded as a library, as confined as everything else")
		if e.base.Network != sandbox.NetworkAllow {
			out = append(out, "loopback is refused as well")
		}
	}
	return out
}

// seatbeltAgrees checks a report of a Mac against the plan that it answers.
func seatbeltAgrees(plan confine.Plan, r confine.Report) error {
	wrong := func(what string) error {
		return fmt.Errorf("confine the runner: the helper's report does not fit its plan: %s", what)
	}
	s := r.Seatbelt
	profile, params := plan.Seatbelt()
	off := plan.Mode == confine.ModeOff
	switch {
	case s.Applied == (s.Code != ""), off != (s.Code == confine.CodeOff), s.Code == confine.CodeNotAsked:
		return wrong("seatbelt")
	case !off && (s.Hash != confine.SeatbeltHash(profile) || s.Parameters != len(params) || s.Version != confine.SeatbeltVersion):
		return wrong("profile")
	case s.Measure == "" || s.Members && !s.Applied:
		return wrong("measure")
	case !slices.Equal(r.Kept, []int{0, 1, 2}):
		return wrong("descriptors")
	case len(r.Variables) != len(plan.Env):
		return wrong("environment")
	}
	for name, want := range map[string]uint64{
		"core": 0, "nofile": uint64(plan.Limits.OpenFiles), "fsize": uint64(plan.Limits.FileSize),
	} {
		if got, set := r.Limits[name]; !set || got > want {
			return wrong("limit " + name)
		}
	}
	return nil
}
