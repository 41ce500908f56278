package hostfallback

import (
	"fmt"
	"slices"
	"strings"

	"brig/hostfallback/confine"
	"brig/orchestrator/sandbox"
)

// byLandlock is the ruleset, or the part of it that is meant.
func (e evidence) byLandlock(what string, attempts ...string) hold {
	return hold{name: strings.TrimSpace(e.landlockName() + " " + what), attempts: attempts}
}

// metadataGap is what Landlock does not see of files.
const metadataGap = "mode, owner, times and attributes of the user's files outside the workspace can be changed"

func (e evidence) fsWrite() sandbox.Layer {
	r := e.report
	var holds []hold
	if r.Landlock.Applied {
		// Nothing but Landlock keeps a file of the workspace from being executed, so that
		// attempt shows it by itself, also where another layer refuses the rest.
		holds = append(holds, e.byLandlock("", "write_root", "exec_workspace"))
	}
	view := r.Namespace.Applied && e.sealed()
	switch {
	case view && e.root():
		holds = append(holds, e.byRoot("write_root", "chmod_root"))
	case view:
		holds = append(holds, hold{name: "read-only mount namespace", attempts: []string{"write_root", "chmod_root"}, spaces: []string{"mnt"}})
	}
	if r.Seccomp.Applied && !r.Seccomp.Filter.Metadata {
		holds = append(holds, hold{name: "seccomp on metadata", attempts: []string{"chmod_root"}})
	}
	whole := sandbox.Layer{State: sandbox.Enforced}
	switch {
	case !r.Landlock.Applied && !view:
		return missing(r.Landlock.Layer, e.part(r.Namespaces.Root))
	case view && r.SharedShm:
		return e.by(partial("", "/dev/shm is shared", whyNot(e.part(r.Namespaces.Root))), holds...)
	case view && (e.root() || r.Landlock.Applied):
		return e.by(whole, holds...)
	case view:
		return e.by(partial("", "named pipes of the user can be written to, which a read-only view does not see", why(codeNoLandlock)), holds...)
	case r.Landlock.Used < 3:
		what := "files outside the workspace can be emptied"
		if !r.Seccomp.Applied || r.Seccomp.Filter.Metadata {
			what += ", and " + metadataGap
		}
		return e.by(partial("", what, whyABI(codeNoTruncate, r.Landlock.Used)), holds...)
	case r.Seccomp.Applied && !r.Seccomp.Filter.Metadata && r.SharedShm:
		return e.by(partial("", "/dev/shm is shared", whyNot(e.part(r.Namespaces.Root))), holds...)
	case r.Seccomp.Applied && !r.Seccomp.Filter.Metadata:
		return e.by(whole, holds...)
	case r.Namespace.Applied:
		return e.by(partial("", metadataGap, why(codeCapabilities)), holds...)
	case r.SharedShm:
		return e.by(partial("", metadataGap+", and /dev/shm is shared", whyNot(r.Namespace)), holds...)
	default:
		return e.by(partial("", metadataGap, whyNot(r.Namespace)), holds...)
	}
}

func (e evidence) fsRead() sandbox.Layer {
	r := e.report
	var holds []hold
	if r.Landlock.Applied {
		holds = append(holds, e.byLandlock("", "list_outside"))
	}
	if e.root() {
		holds = append(holds, e.byRoot("list_outside"))
	}
	switch {
	case len(holds) == 0:
		return missing(r.Landlock.Layer, e.part(r.Namespaces.Root))
	case r.SharedShm:
		return e.by(partial("", "shared memory of the user's other programs can be opened by those who know its name", whyNot(e.part(r.Namespaces.Root))), holds...)
	default:
		return e.by(sandbox.Layer{State: sandbox.Enforced}, holds...)
	}
}

func (e evidence) network(gap string) sandbox.Layer {
	r := e.report
	if e.base.Network == sandbox.NetworkAllow {
		return off(confine.CodeNetShared, because(gap, why(confine.CodeNetShared)))
	}
	var holds []hold
	refused := r.Seccomp.Applied && !r.Seccomp.Filter.Inet
	if r.Seccomp.Applied {
		holds = append(holds, e.bySocketFilter())
	}
	if e.ownNetwork() {
		holds = append(holds, e.byNetwork())
	}
	if r.Landlock.Applied && r.Landlock.Net {
		holds = append(holds, e.byLandlock("on tcp"))
	}
	switch {
	case refused || e.ownNetwork() && r.Seccomp.Applied:
		return e.by(sandbox.Layer{State: sandbox.Enforced}, holds...)
	case e.ownNetwork():
		return e.by(partial("", gap+" by vsock", why(codeVsock)), holds...)
	case e.base.Network == sandbox.NetworkLoopback:
		return off(codeNoLoopback, gap+", because host.network is loopback, and "+whyNot(e.part(r.Namespaces.Network)).cause)
	case r.Landlock.Applied && r.Landlock.Net:
		return e.by(partial("", gap+" by other means than plain TCP", why(codeTCPOnly)), holds...)
	case r.Seccomp.Applied: // and lets them through, which nobody has asked for
		return off(codeNotApplied, "")
	default:
		return missing(r.Seccomp.Layer, e.part(r.Namespaces.Network))
	}
}

// unixSockets are closed by the filter, or by what hides their names: those that
// lie in a directory, and those that do not. Objects of System V belong to it.
func (e evidence) unixSockets() sandbox.Layer {
	r := e.report
	if r.Seccomp.Applied && !r.Seccomp.Filter.Unix {
		return e.by(sandbox.Layer{State: sandbox.Enforced}, hold{name: "seccomp on socket and socketpair", attempts: []string{"socket_unix"}})
	}
	var holds []hold
	paths, abstract, objects := e.root(), e.ownNetwork(), r.Namespace.Applied || r.Seccomp.Applied
	if e.root() {
		holds = append(holds, e.byRoot())
	}
	if e.ownNetwork() {
		holds = append(holds, e.byNetwork())
	}
	switch l := r.Landlock; {
	case !l.Applied:
	case l.Used >= 9:
		paths, abstract, holds = true, true, append(holds, e.byLandlock("on names"))
	case l.Used >= 6:
		abstract, holds = true, append(holds, e.byLandlock("on abstract names"))
	}
	switch {
	case paths && len(e.sockets) > 0 && !(r.Landlock.Applied && r.Landlock.Used >= 9):
		return e.by(partial("", "services that listen on "+strings.Join(e.sockets, ", ")+" can be reached", why(codeInGrants)), holds...)
	case paths && abstract && objects:
		return e.by(sandbox.Layer{State: sandbox.Enforced}, holds...)
	case paths && abstract:
		return e.by(partial("", "shared memory, semaphores and queues of the user's programs can be used", why(codeSysV)), holds...)
	case paths:
		return e.by(partial("", "services of this machine that listen on an abstract name can be reached", why(codeAbstract)), holds...)
	case abstract && r.Landlock.Applied:
		return e.by(partial("", "services of the user that listen on a socket file can be reached", whyABI(codeNoUnix, r.Landlock.Used)), holds...)
	case abstract:
		return e.by(partial("", "services of the user that listen on a socket file can be reached", whyNot(r.Landlock.Layer)), holds...)
	case r.Seccomp.Applied: // and lets them through, which nothing allows it
		return off(codeNotApplied, "")
	default:
		return missing(r.Seccomp.Layer, e.part(r.Namespaces.Root))
	}
}

func (e evidence) signals() sandbox.Layer {
	l := e.report.Landlock
	var holds []hold
	if l.Applied && l.Used >= 6 {
		holds = append(holds, e.byLandlock("scope", "kill_parent"))
	}
	if e.processes() {
		holds = append(holds, e.byProcesses())
	}
	if len(holds) > 0 {
		return e.by(sandbox.Layer{State: sandbox.Enforced}, holds...)
	}
	if !l.Applied {
		return missing(l.Layer, e.part(e.report.Namespaces.Process))
	}
	r := whyABI(codeNoScope, l.Used)
	if l.ABI >= 6 {
		r = why(codeErratum)
	}
	if !e.report.Seccomp.Applied {
		return sandbox.Layer{State: sandbox.Unsupported, Code: r.code, Remedy: r.remedy, Reason: because("processes of the user can be signalled", r)}
	}
	return e.by(partial("", "single processes of the user can be signalled", r), hold{name: "seccomp on kill(-1)"})
}

// ptrace: a process of another user namespace or another Landlock domain cannot be
// looked into or steered, and one that has no number here cannot be named.
func (e evidence) ptrace() sandbox.Layer {
	r := e.report
	var holds []hold
	if r.Landlock.Applied {
		holds = append(holds, e.byLandlock("domain"))
	}
	if r.Namespace.Applied {
		holds = append(holds, e.byUser())
	}
	if e.processes() {
		holds = append(holds, e.byProcesses())
	}
	strong := len(holds) > 0
	if r.Seccomp.Applied {
		// Without the filter a process may be traced by its parent, inside its own domain.
		holds = append(holds, hold{name: "seccomp", attempts: []string{"ptrace_traceme"}})
	}
	switch {
	case strong:
		return e.by(sandbox.Layer{State: sandbox.Enforced}, holds...)
	case r.Seccomp.Applied:
		return e.by(partial("", "memory and environment of the user's other processes can be read through /proc", why(codeNoLandlock)), holds...)
	default:
		return missing(r.Landlock.Layer, r.Namespace)
	}
}

// deviceNames are the device files that an instance may find, wherever it looks.
var deviceNames = []string{"full", "null", "random", "urandom", "zero"}

func (e evidence) devices() sandbox.Layer {
	var holds []hold
	if e.report.Landlock.Applied {
		holds = append(holds, e.byLandlock(""))
	}
	if e.root() {
		h := e.byRoot()
		if e.observed != nil {
			foreign := slices.DeleteFunc(slices.Clone(e.observed.Devices), func(name string) bool { return slices.Contains(deviceNames, name) })
			if len(foreign) > 0 {
				h.denied = "the runner finds " + strings.Join(foreign, ", ") + " in /dev"
			}
		}
		holds = append(holds, h)
	}
	if len(holds) == 0 {
		return missing(e.report.Landlock.Layer, e.part(e.report.Namespaces.Root))
	}
	holds[len(holds)-1].name += ": null, zero, full, random"
	return e.by(sandbox.Layer{State: sandbox.Enforced}, holds...)
}

func (e evidence) noNewPrivs() sandbox.Layer {
	if !e.report.NoNewPrivs {
		return off(codeNotApplied, "no_new_privs was not set")
	}
	return e.readBack(enforced("prctl no_new_privs"), "NoNewPrivs", "1")
}

// readBack compares what the kernel says about the runner with what must be there.
func (e evidence) readBack(row sandbox.Layer, field, want string) sandbox.Layer {
	if e.observed == nil || row.State != sandbox.Enforced {
		return row
	}
	got := e.status(field)
	row.Evidence = field + "=" + got
	if got != want {
		r := why(codeProbeDisagree)
		return sandbox.Layer{
			State: sandbox.Off, Mechanism: row.Mechanism, Code: r.code, Remedy: r.remedy,
			Reason: "it was applied, but the runner does not see it", Evidence: row.Evidence,
		}
	}
	return row
}

func (e evidence) capabilities() sandbox.Layer {
	if !e.incapable() {
		return off(codeNotApplied, "capabilities were left, "+e.report.CapEff)
	}
	row := enforced("all sets emptied")
	for _, field := range []string{"CapPrm", "CapAmb", "CapEff"} {
		if row = e.readBack(row, field, noCapabilities); row.State != sandbox.Enforced {
			return row
		}
	}
	return row
}

const noCapabilities = "0000000000000000"

// incapable tells whether the helper had no capabilities left.
func (e evidence) incapable() bool { return e.report.CapEff == noCapabilities }

// inheritedFDs goes by what was open in the helper when it became the runner.
func (e evidence) inheritedFDs() sandbox.Layer {
	if kept := e.report.Kept; !slices.Equal(kept, []int{0, 1, 2}) {
		return off(codeDescriptors, "open when the runner started, beside its three pipes: "+numbers(kept))
	}
	if e.report.Forked != nil {
		return enforced("everything but the runner's three pipes was closed after the fork, and looked for from outside")
	}
	return enforced("close-on-exec on everything but the runner's three pipes")
}

// environment compares names: those that the runner was started with, and those
// that it saw.
func (e evidence) environment() sandbox.Layer {
	// Python sets the first for itself where the locale is plain C, the libraries of macOS the second.
	known := map[string]bool{"LC_CTYPE": true, "__CF_USER_TEXT_ENCODING": true}
	for _, entry := range environment("", "", interpreter{}, 1) {
		name, _, _ := strings.Cut(entry, "=")
		known[name] = true
	}
	names := slices.Clone(e.report.Variables)
	if e.observed != nil {
		names = append(names, e.observed.Environ...)
	}
	slices.Sort(names)
	foreign := slices.DeleteFunc(slices.Compact(names), func(name string) bool { return known[name] })
	if len(foreign) > 0 {
		return off(codeVariable, "the runner was started with "+strings.Join(foreign, ", "))
	}
	return enforced("a fixed list, nothing inherited")
}

// endable is the state of what only holds as long as brig's own processes live:
// code that can signal them can end them.
func (e evidence) endable() sandbox.Layer {
	if s := e.report.Seatbelt; s != nil && s.Applied || s == nil && e.signals().State == sandbox.Enforced {
		return sandbox.Layer{State: sandbox.Enforced}
	}
	r := why(codeEndable)
	if e.base.Mode == sandbox.ModeOff {
		r.remedy = remedyOn
	}
	return partial("", "the code can end brig's own processes, and what it started then lives on", r)
}

// wallClock is a timer in brig, which is nobody's who can end brig.
func (e evidence) wallClock() sandbox.Layer {
	return e.by(e.endable(), hold{name: brigsTimer})
}

const brigsTimer = "brig's own timer, which waits while brig itself is suspended, then the tree kill"

// treeKill names everything that ends the tree. It is off where orphans do not
// come to the supervisor, which then cannot find them, and nothing else holds them.
func (e evidence) treeKill() sandbox.Layer {
	var holds []hold
	if e.report.Cgroup.Kill {
		holds = append(holds, e.byCgroup("cgroup.kill"))
	}
	if e.processes() {
		holds = append(holds, hold{name: "the end of the process namespace", spaces: []string{"pid"}})
	}
	if e.report.Forked != nil { // its supervisor keeps others as well, and kills its first process
		holds = append(holds, hold{name: "subreaper sweep by the runner"})
	} else if e.watch.Subreaper {
		holds = append(holds, hold{name: "subreaper sweep, twice: by the supervisor and by the runner"})
	}
	if len(holds) == 0 {
		return off(codeNotApplied, "processes that lose their parent are not found by the supervisor")
	}
	return e.by(e.endable(), holds...)
}

func (e evidence) syscallFilter() sandbox.Layer {
	s := e.report.Seccomp
	if !s.Applied {
		return missing(s.Layer)
	}
	name := fmt.Sprintf("seccomp %s, %d instructions, %s", s.Arch, s.Length, s.Hash)
	if f := e.report.Forked; f != nil && f.Filters > 1 {
		name += fmt.Sprintf(", on top of the zygote's (%d filters in all)", f.Filters)
	}
	return e.readBack(enforced(name), "Seccomp", "2")
}

// kernelSurface is partial at its best: whatever the filter lets through, the
// machine's own kernel answers.
func (e evidence) kernelSurface() sandbox.Layer {
	if !e.report.Seccomp.Applied {
		return missing(e.report.Seccomp.Layer)
	}
	return e.by(partial("", "", why(codeSharedKernel)),
		hold{name: "shared kernel behind the system call filter", attempts: []string{"unshare_user", "io_uring_setup", "keyctl", "mount"}})
}
