package hostfallback

import (
	"fmt"
	"slices"
	"strings"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// landlockName is the mechanism as pages show it.
func (e evidence) landlockName() string {
	return fmt.Sprintf("landlock abi %d", e.report.Landlock.Used)
}

func (e evidence) fsWrite() sandbox.Layer {
	r := e.report
	// Who may mount can undo a view that was made so after the namespace.
	view := r.Namespace.Applied && (e.incapable() || r.Seccomp.Applied)
	var row sandbox.Layer
	switch {
	case !r.Landlock.Applied && !view:
		return missing(r.Landlock.Layer, "landlock")
	case view && r.Landlock.Applied:
		row = enforced(e.landlockName() + ", read-only mount namespace")
	case view:
		row = partial("read-only mount namespace", "landlock-missing",
			"named pipes of the user can be written to, which a read-only view does not see", remedyKernel)
	case r.Landlock.Used < 3:
		row = partial(e.landlockName(), fmt.Sprintf("landlock-abi-%d-lacks-truncate", r.Landlock.Used),
			"files outside the workspace can be emptied, because this kernel's Landlock does not see truncation", remedyKernel)
	case r.Seccomp.Applied && !r.Seccomp.Filter.Metadata:
		row = enforced(e.landlockName() + ", seccomp on metadata")
	case r.Namespace.Applied:
		row = partial(e.landlockName(), "capabilities-left", "mode, owner, times and attributes of the user's files outside the workspace can be changed, "+
			"because the code has capabilities that can undo the read-only view", "brig doctor")
	case r.SharedShm:
		reason, remedy := userns(r.Namespace)
		row = partial(e.landlockName(), r.Namespace.Code,
			"mode, owner, times and attributes of the user's files outside the workspace can be changed, and /dev/shm is shared, because "+reason, remedy)
	default:
		reason, remedy := userns(r.Namespace)
		row = partial(e.landlockName(), r.Namespace.Code,
			"mode, owner, times and attributes of the user's files outside the workspace can be changed, because "+reason, remedy)
	}
	return e.contradicted(row, "write_root", "chmod_root")
}

func (e evidence) fsRead() sandbox.Layer {
	r := e.report
	if !r.Landlock.Applied {
		return missing(r.Landlock.Layer, "landlock")
	}
	if r.SharedShm {
		reason, remedy := userns(r.Namespace)
		return e.contradicted(partial(e.landlockName(), r.Namespace.Code,
			"shared memory of the user's other programs can be opened by those who know its name, because "+reason, remedy), "list_outside")
	}
	return e.contradicted(enforced(e.landlockName()), "list_outside")
}

func (e evidence) network(gap string) sandbox.Layer {
	r := e.report
	var row sandbox.Layer
	switch {
	case e.base.Network == sandbox.NetworkAllow:
		return off("host-network-allow", "host.network is allow: "+gap, "set host.network to deny")
	case r.Seccomp.Applied && r.Landlock.Net:
		row = enforced("seccomp on socket, " + e.landlockName() + " on tcp")
	case r.Seccomp.Applied:
		row = enforced("seccomp on socket")
	case r.Landlock.Net:
		row = partial(e.landlockName()+" on tcp", "landlock-tcp-only", "only plain TCP is refused, "+gap+" by other means", remedyKernel)
	default:
		return missing(r.Seccomp.Layer, "the system call filter")
	}
	return e.contradicted(row, "socket_inet", "socket_netlink", "socket_vsock")
}

func (e evidence) unixSockets() sandbox.Layer {
	r := e.report
	switch {
	case r.Seccomp.Applied && !r.Seccomp.Filter.Unix:
		return e.contradicted(enforced("seccomp on socket and socketpair"), "socket_unix")
	case r.Landlock.Applied && r.Landlock.Used >= 9:
		return enforced(e.landlockName() + " on names, seccomp on socketpair")
	case r.Landlock.Applied && r.Landlock.Used >= 6:
		return partial(e.landlockName()+" on abstract names", fmt.Sprintf("landlock-abi-%d-lacks-unix", r.Landlock.Used),
			"services of the user that listen on a socket file can be reached", remedyKernel)
	default:
		return missing(r.Seccomp.Layer, "the system call filter")
	}
}

func (e evidence) processLimit() sandbox.Layer {
	// The number of open files is each process's own and has no layer to itself.
	files := fmt.Sprintf(", rlimit nofile=%d", e.report.Limits["nofile"])
	watched := fmt.Sprintf("tree watched at %d", e.watch.Processes)
	held := e.watch.Processes > 0 || e.report.UID != 0 // the kernel's limit, or the watch
	var row sandbox.Layer
	switch {
	case e.report.UID == 0:
		row = partial(watched+files, "nproc-root",
			"the kernel does not bound root; processes are counted four times a second", "do not run brig as root")
	case e.report.Namespace.Applied:
		row = enforced(fmt.Sprintf("rlimit nproc=%d in a user namespace of its own, %s%s", e.report.Limits["nproc"], watched, files))
	default:
		row = partial("rlimit nproc, "+watched+files, "nproc-per-user",
			"the kernel counts all processes of the user, so programs outside use up the limit and free it", remedyDocker)
	}
	return e.limited(held, row, "nproc", "nofile")
}

// watching tells whether the supervisor ends the tree above a limit.
func (e evidence) watching(limit int64) bool { return limit > 0 }

// limited returns a row that is off if what was set is not what it needs: the tree is
// not watched, a limit is missing, or the runner sees a higher one than was set.
func (e evidence) limited(watched bool, row sandbox.Layer, names ...string) sandbox.Layer {
	if !watched {
		return off("not-watched", "nobody watches the limit for the whole tree of processes", "brig doctor")
	}
	for _, name := range names {
		if _, set := e.report.Limits[name]; !set {
			return off("not-applied", "the limit "+name+" was not set", "brig doctor")
		}
	}
	name := e.looser(names...)
	if name == "" {
		return row
	}
	return sandbox.Layer{
		State: sandbox.Off, Mechanism: row.Mechanism, Code: "probe-disagrees", Remedy: "brig doctor",
		Reason: "the limit " + name + " was set, but the runner sees a higher one",
	}
}

func (e evidence) cpuLimit() sandbox.Layer {
	limit := e.base.Limits.MilliCPU
	switch {
	case e.report.Narrowed:
		return partial(fmt.Sprintf("affinity to %d processors", e.report.CPUs), "affinity-can-be-undone",
			"code can choose other processors for itself", remedyDocker)
	case e.report.CPUs > 0 && e.report.CPUs*1000 <= limit:
		return enforced(fmt.Sprintf("the machine gives brig %d processors, which is within the limit of %g", e.report.CPUs, float64(limit)/1000))
	default:
		return off("cgroup-not-delegated", "processors cannot be divided without a control group", remedyDocker)
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
		return off("probe-disagrees", "the runner works with other bounds than it was given", "brig doctor")
	}
	return enforced(outputBounds(e.observed.Bounds))
}

func outputBounds(b wire.Bounds) string {
	return fmt.Sprintf("the runner and brig keep %d and log %d bytes", b.Kept, b.Logged)
}

func (e evidence) noNewPrivs() sandbox.Layer {
	if !e.report.NoNewPrivs {
		return off("not-applied", "no_new_privs was not set", "brig doctor")
	}
	row := enforced("prctl no_new_privs")
	return e.readBack(row, "NoNewPrivs", "1")
}

// readBack compares what the kernel says about the runner with what must be there.
func (e evidence) readBack(row sandbox.Layer, field, want string) sandbox.Layer {
	if e.observed == nil || row.State != sandbox.Enforced {
		return row
	}
	got := e.status(field)
	row.Evidence = field + "=" + got
	if got != want {
		return sandbox.Layer{
			State: sandbox.Off, Mechanism: row.Mechanism, Code: "probe-disagrees", Remedy: "brig doctor",
			Reason: "it was applied, but the runner does not see it", Evidence: row.Evidence,
		}
	}
	return row
}

func (e evidence) capabilities() sandbox.Layer {
	if !e.incapable() {
		return off("not-applied", "capabilities were left, "+e.report.CapEff, "brig doctor")
	}
	const none = noCapabilities
	row := enforced("all sets emptied")
	for _, field := range []string{"CapPrm", "CapAmb", "CapEff"} {
		if row = e.readBack(row, field, none); row.State != sandbox.Enforced {
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
		return off("descriptors-left", "open when the runner started, beside its three pipes: "+numbers(kept), "brig doctor")
	}
	return enforced("close-on-exec on everything but the runner's three pipes")
}

// environment compares names: those that the runner was started with, and those
// that it saw.
func (e evidence) environment() sandbox.Layer {
	known := map[string]bool{"LC_CTYPE": true} // Python sets it for itself where the locale is plain C
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
		return off("foreign-variable", "the runner was started with "+strings.Join(foreign, ", "), "brig doctor")
	}
	return enforced("a fixed list, nothing inherited")
}

// treeKill is off where orphans do not come to the supervisor, which then cannot
// find them.
func (e evidence) treeKill() sandbox.Layer {
	if !e.watch.Subreaper {
		return off("not-applied", "processes that lose their parent are not found by the supervisor", "brig doctor")
	}
	return enforced("subreaper sweep, twice: by the supervisor and by the runner")
}

func (e evidence) syscallFilter() sandbox.Layer {
	s := e.report.Seccomp
	if !s.Applied {
		return missing(s.Layer, "the system call filter")
	}
	row := enforced(fmt.Sprintf("seccomp %s, %d instructions, %s", s.Arch, s.Length, s.Hash))
	return e.readBack(row, "Seccomp", "2")
}

func (e evidence) signals() sandbox.Layer {
	l := e.report.Landlock
	switch {
	case !l.Applied:
		return missing(l.Layer, "landlock")
	case l.Used >= 6:
		return e.contradicted(enforced(e.landlockName()+" scope"), "kill_parent")
	case l.ABI >= 6:
		return partial("seccomp on kill(-1)", "landlock-erratum-signal",
			"single processes of the user can be signalled: this kernel's Landlock has the scope, but not its correction", remedyKernel)
	default:
		return partial("seccomp on kill(-1)", fmt.Sprintf("landlock-abi-%d-lacks-scope", l.Used),
			"single processes of the user can be signalled, because this kernel's Landlock has no scope for signals", remedyKernel)
	}
}

func (e evidence) ptrace() sandbox.Layer {
	r := e.report
	var row sandbox.Layer
	switch {
	case r.Landlock.Applied && r.Seccomp.Applied:
		row = enforced(e.landlockName() + " domain, seccomp")
	case r.Landlock.Applied:
		row = enforced(e.landlockName() + " domain")
	case r.Namespace.Applied && r.Seccomp.Applied:
		row = enforced("user namespace, seccomp")
	case r.Seccomp.Applied:
		return partial("seccomp", "landlock-missing", "memory and environment of the user's other processes can be read through /proc", remedyKernel)
	default:
		return missing(r.Landlock.Layer, "landlock")
	}
	if !r.Seccomp.Applied {
		return row // inside its own domain a process may be traced by its parent
	}
	return e.contradicted(row, "ptrace_traceme")
}

func (e evidence) devices() sandbox.Layer {
	if !e.report.Landlock.Applied {
		return missing(e.report.Landlock.Layer, "landlock")
	}
	return enforced(e.landlockName() + ": null, zero, full, random")
}

// kernelSurface is partial at its best: whatever the filter lets through, the
// machine's own kernel answers.
func (e evidence) kernelSurface() sandbox.Layer {
	if !e.report.Seccomp.Applied {
		return missing(e.report.Seccomp.Layer, "the system call filter")
	}
	row := e.contradicted(enforced("shared kernel behind the system call filter"), "unshare_user", "io_uring_setup", "keyctl", "mount")
	if row.State == sandbox.Enforced {
		row.State, row.Code = sandbox.Partial, "shared-kernel"
		row.Reason = "the code shares the kernel of this machine"
		row.Remedy = "start a Docker engine with the gVisor runtime and set docker.runtime to runsc"
	}
	return row
}
