package hostfallback

import (
	"fmt"
	"strings"

	"brig/hostfallback/confine"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// bound says that the files of the control group are out of the code's reach.
// They belong to the user, who could raise every limit in them.
func (e evidence) bound() bool {
	return e.report.Landlock.Applied || e.report.Namespace.Applied && e.sealed()
}

// holds says that the control group holds a limit: it was read back, and it is
// not above what was asked for.
func (e evidence) holds(got, want int64) bool { return got > 0 && got <= want && e.bound() }

// cgroupCause is why no control group holds a limit; fallback where nobody says.
func (e evidence) cgroupCause(fallback string) reason {
	c := e.report.Cgroup
	if (c.Memory > 0 || c.Processes > 0 || c.MilliCPU > 0) && !e.bound() {
		return why(codeOwnGroup)
	}
	if c.Applied {
		return why(fallback)
	}
	r := whyNot(c.Layer)
	if len(c.Lacks) > 0 {
		r.cause += ": " + strings.Join(c.Lacks, ", ")
	}
	if r.code != codeNotApplied && r.code != confine.CodeNotAsked && r.code != confine.CodeOff {
		return r
	}
	return why(fallback)
}

// watchedAt is what the supervisor measures and ends; 0 is nothing.
func watchedAt(limit int64) hold {
	if limit <= 0 {
		return hold{}
	}
	return hold{name: fmt.Sprintf("tree watched at %d", limit)}
}

func (e evidence) processLimit() sandbox.Layer {
	// The number of open files is each process's own and has no layer to itself.
	files := hold{name: fmt.Sprintf("rlimit nofile=%d", e.report.Limits["nofile"])}
	watched := watchedAt(int64(e.watch.Processes))
	limit := e.report.Limits["nproc"]
	switch c := e.report.Cgroup; {
	case e.holds(int64(c.Processes), int64(e.base.Limits.Processes)):
		return e.limited(true, e.by(sandbox.Layer{State: sandbox.Enforced}, e.byCgroup(fmt.Sprintf("pids.max=%d", c.Processes)), watched, files), "nofile")
	case e.report.UID == 0:
		row := partial("", "processes are counted "+memoryPeriod(), why(codeNprocRoot))
		return e.limited(e.watch.Processes > 0, e.by(row, watched, files), "nofile")
	case e.report.Namespace.Applied:
		own := hold{name: fmt.Sprintf("rlimit nproc=%d in a user namespace of its own", limit), spaces: []string{"user"}}
		return e.limited(true, e.by(sandbox.Layer{State: sandbox.Enforced}, own, watched, files), "nproc", "nofile")
	default:
		row := partial("", "the limit is met too early or too late", why(codeNprocUser))
		return e.limited(true, e.by(row, hold{name: "rlimit nproc"}, watched, files), "nproc", "nofile")
	}
}

func (e evidence) memoryLimit() sandbox.Layer {
	each := hold{name: fmt.Sprintf("rlimit data=%d", e.report.Limits["data"])}
	watched := watchedAt(e.watch.Memory)
	if c := e.report.Cgroup; e.holds(c.Memory, e.base.Limits.Memory) {
		return e.limited(true, e.by(sandbox.Layer{State: sandbox.Enforced},
			e.byCgroup(fmt.Sprintf("memory.max=%d", c.Memory)), each, watched), "data")
	}
	row := e.by(partial("", "all processes together are only measured, "+memoryPeriod()+", and ended above the limit", e.cgroupCause(codePerProcess)), each, watched)
	row.Reason += "; not counted are " + e.unseenMemory()
	return e.limited(e.watch.Memory > 0, row, "data")
}

func (e evidence) diskLimit() sandbox.Layer {
	row := e.by(partial("", "all files together are only measured, "+diskPeriod()+", and the session is ended above the limit", why(codeDiskWatched)),
		hold{name: fmt.Sprintf("rlimit fsize=%d", e.report.Limits["fsize"])}, watchedAt(e.watch.Disk))
	row.Reason += "; " + unwatchable() + " it is ended as well; not counted are " + e.unseenDisk()
	return e.limited(e.watch.Disk > 0, row, "fsize")
}

// limited returns a row that is off if what was set is not what it needs: the tree is
// not watched, a limit is missing, or the runner sees a higher one than was set.
func (e evidence) limited(watched bool, row sandbox.Layer, names ...string) sandbox.Layer {
	if row.State == sandbox.Off { // what the runner saw has decided already
		return row
	}
	if !watched {
		return off(codeNotWatched, "")
	}
	for _, name := range names {
		if _, set := e.report.Limits[name]; !set {
			return off(codeNotApplied, "the limit "+name+" was not set")
		}
	}
	name := e.looser(names...)
	if name == "" {
		return row
	}
	r := why(codeProbeDisagree)
	return sandbox.Layer{
		State: sandbox.Off, Mechanism: row.Mechanism, Code: r.code, Remedy: r.remedy,
		Reason: "the limit " + name + " was set, but the runner sees a higher one",
	}
}

func (e evidence) cpuLimit() sandbox.Layer {
	limit := e.base.Limits.MilliCPU
	switch c := e.report.Cgroup; {
	case e.holds(int64(c.MilliCPU), int64(limit)):
		return e.by(sandbox.Layer{State: sandbox.Enforced}, e.byCgroup(fmt.Sprintf("cpu.max=%g processors", float64(c.MilliCPU)/1000)))
	case e.report.CPUs > 0 && e.report.CPUs*1000 <= limit && !e.report.Narrowed:
		return enforced(fmt.Sprintf("the machine gives brig %d processors, which is within the limit of %g", e.report.CPUs, float64(limit)/1000))
	case e.report.Narrowed:
		return e.by(partial("", "code can choose other processors for itself", e.cgroupCause(codeAffinity)),
			hold{name: fmt.Sprintf("affinity to %d processors", e.report.CPUs)})
	default:
		r := e.cgroupCause(codeNotDivided)
		return sandbox.Layer{State: sandbox.Off, Code: r.code, Remedy: r.remedy, Reason: because("processors are not divided", r)}
	}
}

// outputLimit goes by the bounds that the runner says it works with. Before
// there is one, they are those that it will be given.
func (e evidence) outputLimit() sandbox.Layer {
	want := e.base.Limits.Bounds()
	if e.observed == nil {
		return enforced(outputBounds(want))
	}
	if e.observed.Bounds != want {
		return off(codeProbeDisagree, "the runner works with other bounds than it was given")
	}
	return enforced(outputBounds(e.observed.Bounds))
}

func outputBounds(b wire.Bounds) string {
	return fmt.Sprintf("the runner and brig keep %d and log %d bytes", b.Kept, b.Logged)
}

// unseenMemory and unseenDisk name what the watching of the tree cannot see here.
func (e evidence) unseenMemory() string {
	const always = "the buffers of sockets and pipes and what is left of a shared mapping after most of it was unmapped"
	if !e.report.Seccomp.Applied {
		return "memory whose descriptor is in flight between two sockets, " + always
	}
	return always
}

// memoryPeriod and diskPeriod say how often a tree is looked at.
func memoryPeriod() string {
	return fmt.Sprintf("four times a second, or at most %g s after a look that took long", confine.MemoryPause.Seconds())
}

func diskPeriod() string {
	return fmt.Sprintf("once a second, or at most %g s after a look that took long", confine.DiskPause.Seconds())
}

// unwatchable is what ends a session because it could not be measured.
func unwatchable() string {
	return fmt.Sprintf("with more than %d files and directories, or directories nested deeper than %d,", confine.DiskEntries, confine.DiskDepth)
}

func (e evidence) unseenDisk() string {
	const always = "deleted files whose descriptor is in flight between two sockets"
	if !e.report.Namespace.Applied {
		return always + ", or is held by a process that hides from others"
	}
	return always
}
