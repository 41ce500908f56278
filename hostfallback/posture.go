package hostfallback

import (
	"fmt"
	"slices"
	"strings"

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
	base     sandbox.Base
}

// promised are the layers that the host sandbox stands for. Limits of memory,
// processors and disk are held as well as an unprivileged user can hold them,
// and reported, but not promised. Nobody promises what was switched off by name.
func promised(base sandbox.Base) []sandbox.LayerID {
	ids := []sandbox.LayerID{
		sandbox.FSWrite, sandbox.FSRead, sandbox.NetOutbound, sandbox.UnixSockets, sandbox.NoNewPrivs,
		sandbox.SyscallFilter, sandbox.Signals, sandbox.Ptrace, sandbox.InheritedFDs, sandbox.Environment,
		sandbox.TreeKill,
	}
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
		row := e.row(id)
		row.ID, row.Evidence = id, words(row.Evidence, e.reported(id))
		rows = append(rows, row)
	}
	return rows
}

func (e evidence) row(id sandbox.LayerID) sandbox.Layer {
	switch id {
	case sandbox.FSWrite:
		return e.fsWrite()
	case sandbox.FSRead:
		return e.fsRead()
	case sandbox.NetOutbound:
		return e.network("another machine can be reached")
	case sandbox.NetLoopback:
		return e.network("services of this machine can be reached")
	case sandbox.UnixSockets:
		return e.unixSockets()
	case sandbox.ProcessLimit:
		return e.processLimit()
	case sandbox.MemoryLimit:
		return e.limited(e.watching(e.watch.Memory), partial(fmt.Sprintf("rlimit data=%d, tree watched at %d", e.report.Limits["data"], e.watch.Memory), "rlimit-per-process-only",
			"each process is bounded by the kernel, all together are measured four times a second and ended above the limit; not counted are "+e.unseenMemory(), remedyDocker), "data")
	case sandbox.CPULimit:
		return e.cpuLimit()
	case sandbox.DiskLimit:
		return e.limited(e.watching(e.watch.Disk), partial(fmt.Sprintf("rlimit fsize=%d, tree watched at %d", e.report.Limits["fsize"], e.watch.Disk), "disk-watched-only",
			"each file is bounded by the kernel, all together are measured about once a second and the session is ended above the limit, "+unwatchable()+"; not counted are "+e.unseenDisk(), remedyDocker), "fsize")
	case sandbox.OutputLimit:
		return e.outputLimit()
	case sandbox.WallClock:
		return enforced("brig's own timer, then the tree kill")
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

const (
	remedyDocker = "start a Docker engine, or accept the gap"
	remedyKernel = "use a kernel of 6.12 or newer with Landlock and seccomp, or start a Docker engine"
	remedyOn     = "set host.sandbox to best-effort"
)

func enforced(mechanism string) sandbox.Layer {
	return sandbox.Layer{State: sandbox.Enforced, Mechanism: mechanism}
}

func partial(mechanism, code, reason, remedy string) sandbox.Layer {
	return sandbox.Layer{State: sandbox.Partial, Mechanism: mechanism, Code: code, Reason: reason, Remedy: remedy}
}

func off(code, reason, remedy string) sandbox.Layer {
	return sandbox.Layer{State: sandbox.Off, Code: code, Reason: reason, Remedy: remedy}
}

// missing words why Landlock or the filter was not applied. Without either there
// is nothing on this kernel that could hold the layer.
func missing(l confine.Layer, what string) sandbox.Layer {
	row := sandbox.Layer{State: sandbox.Unsupported, Code: l.Code, Remedy: remedyKernel}
	switch l.Code {
	case confine.CodeOff:
		return off(l.Code, "host.sandbox is off", remedyOn)
	case confine.CodeLandlockNotBuilt:
		row.Reason = "this kernel was built without Landlock"
	case confine.CodeLandlockNotBoot:
		row.Reason = "this kernel has Landlock, but it is not among the security modules chosen at boot"
		row.Remedy = "add landlock to the lsm= parameter of the kernel and restart, or start a Docker engine"
	case confine.CodeSeccompNotBuilt:
		row.Reason = "this kernel was built without system call filters"
	case confine.CodeSeccompArch:
		row.Reason = "brig has no system call filter for this processor"
		row.Remedy = remedyDocker
	default:
		return off("not-applied", what+" was not applied", "brig doctor")
	}
	return row
}

// userns words why there is no mount namespace.
func userns(l confine.Layer) (reason, remedy string) {
	switch l.Code {
	case confine.CodeUsernsAppArmor:
		return "AppArmor keeps programs it does not know from using user namespaces",
			"sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0, or start a Docker engine"
	case confine.CodeUsernsSysctl:
		return "user namespaces are switched off", "sudo sysctl user.max_user_namespaces=10000 kernel.unprivileged_userns_clone=1, or start a Docker engine"
	case confine.CodeMountOldKernel:
		return "the kernel is older than 5.12", remedyKernel
	case confine.CodeNotAsked:
		return "no mount namespace was asked for", "brig doctor"
	case confine.CodeMountRefused:
		return "mounts inside a user namespace are refused" + errnoText(l), remedyDocker
	default:
		return "a user namespace was refused" + errnoText(l), remedyDocker
	}
}

func errnoText(l confine.Layer) string {
	if l.Errno == "" {
		return ""
	}
	return " (" + l.Errno + ")"
}

// unseenMemory and unseenDisk name what the watching of the tree cannot see here.
func (e evidence) unseenMemory() string {
	const always = "the buffers of sockets and pipes and what is left of a shared mapping after most of it was unmapped"
	if !e.report.Seccomp.Applied {
		return "memory whose descriptor is in flight between two sockets, " + always
	}
	return always
}

// unwatchable is what ends a session because it could not be measured.
func unwatchable() string {
	return fmt.Sprintf("above %d files and directories, and where directories are nested deeper than %d", confine.DiskEntries, confine.DiskDepth)
}

func (e evidence) unseenDisk() string {
	const always = "deleted files whose descriptor is in flight between two sockets"
	if !e.report.Namespace.Applied {
		return always + ", or is held by a process that hides from others"
	}
	return always
}

// notes are what is open by design and belongs to no layer's state.
func notes(r confine.Report, base sandbox.Base) []string {
	out := []string{
		"the kernel is shared with the machine",
		"that a file exists, its size and its times can be asked for outside the workspace, path by path",
		"command lines of the user's other processes can be read",
		"the processors that the user's other processes may run on can be changed",
		"a program written into the workspace cannot be started by its path, but its content can be run from memory, as confined as everything else",
	}
	if r.Seccomp.Applied && !r.Seccomp.Filter.Metadata {
		out = append(out, "changing a file's mode, owner or times is refused everywhere, also in the workspace")
	}
	if base.Network != sandbox.NetworkAllow && r.Seccomp.Applied {
		out = append(out, "loopback is refused as well")
	}
	if r.Landlock.Applied && !r.PrivateShm && !r.SharedShm {
		out = append(out, "locks and pools of multiprocessing cannot be made, because /dev/shm could only be shared")
	}
	return out
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

// contradicted returns a row that is off if an attempt succeeded that the row
// says is refused. It wins over everything the helper reported.
func (e evidence) contradicted(row sandbox.Layer, attempts ...string) sandbox.Layer {
	var seen []string
	for _, a := range attempts {
		outcome := e.saw(a)
		if outcome == "ok" && row.State == sandbox.Enforced {
			return sandbox.Layer{
				State: sandbox.Off, Mechanism: row.Mechanism, Code: "probe-disagrees", Remedy: "brig doctor",
				Reason: "it was applied, but " + strings.ReplaceAll(a, "_", " ") + " succeeded from inside", Evidence: a + "=ok",
			}
		}
		if outcome != "" {
			seen = append(seen, a+"="+outcome)
		}
	}
	if len(seen) > 0 {
		row.Evidence = strings.Join(seen, " ")
	}
	return row
}
