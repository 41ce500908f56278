package hostfallback

import (
	"slices"
	"strconv"
	"strings"

	"brig/hostfallback/confine"
)

// reason is why a layer is not wholly enforced. Cause is a clause that can stand
// by itself or follow "because"; remedy ends with a command where there is one.
type reason struct{ code, cause, remedy string }

const (
	remedyDocker = "start a Docker engine, or accept the gap"
	remedyKernel = "use a kernel of 6.12 or newer with Landlock and seccomp, or start a Docker engine"
	remedyOn     = "set host.sandbox to best-effort"
	remedyReport = "report what this prints: brig selftest --backend host --evidence"
)

// Codes of reasons that the posture finds by itself; the others are those of the
// report. N in a code stands for the ABI of Landlock that was used.
const (
	codeNoTruncate    = "landlock-abi-N-lacks-truncate"
	codeNoScope       = "landlock-abi-N-lacks-scope"
	codeNoUnix        = "landlock-abi-N-lacks-unix"
	codeErratum       = "landlock-erratum-signal"
	codeNoLandlock    = "landlock-missing"
	codeTCPOnly       = "landlock-tcp-only"
	codeCapabilities  = "capabilities-left"
	codeNoLoopback    = "host-network-loopback"
	codeVsock         = "netns-lacks-vsock"
	codeAbstract      = "abstract-names-shared"
	codeSysV          = "sysv-shared"
	codeInGrants      = "sockets-in-grants"
	codeNprocRoot     = "nproc-root"
	codeNprocUser     = "nproc-per-user"
	codeOwnGroup      = "cgroup-own-files"
	codePerProcess    = "rlimit-per-process-only"
	codeDiskWatched   = "disk-watched-only"
	codeAffinity      = "affinity-can-be-undone"
	codeNotDivided    = "cpu-not-divided"
	codeSharedKernel  = "shared-kernel"
	codeNotWatched    = "not-watched"
	codeNotApplied    = "not-applied"
	codeDescriptors   = "descriptors-left"
	codeVariable      = "foreign-variable"
	codeEndable       = "signals-reach-brig"
	codeProbeDisagree = "probe-disagrees"
	codeVisible       = "visible-" // followed by what: files, processes, network
)

// reasons are all of them, in the order in which the page of the host sandbox
// shows them. Rows, pages and remedies have their words from here.
func reasons() []reason {
	return slices.Concat(posixReasons(), seatbeltReasons(), windowsReasons())
}

func posixReasons() []reason {
	return []reason{
		{confine.CodeOff, "host.sandbox is off", remedyOn},
		{confine.CodeNotAsked, "it was not asked for", remedyReport},
		{
			confine.CodeUsernsAppArmor, "AppArmor keeps programs it does not know from using user namespaces",
			"sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0, or start a Docker engine",
		},
		{
			confine.CodeUsernsSysctl, "user namespaces are switched off",
			"sudo sysctl user.max_user_namespaces=10000 kernel.unprivileged_userns_clone=1, or start a Docker engine",
		},
		{
			confine.CodeUsernsOthers, "namespaces of mounts, System V objects, host names or control groups are switched off",
			"sudo sysctl user.max_mnt_namespaces=10000 user.max_ipc_namespaces=10000 user.max_uts_namespaces=10000 user.max_cgroup_namespaces=10000, or start a Docker engine",
		},
		{confine.CodeUsernsRefused, "a user namespace was refused, as in most containers", "run brig outside of the container, or start a Docker engine"},
		{confine.CodeMountRefused, "mounts inside a user namespace are refused", remedyDocker},
		{confine.CodeMountOldKernel, "the kernel is older than 5.12", remedyKernel},
		{
			confine.CodeProcMasked, "a /proc of its own is refused, because parts of the visible one are covered, as in a container",
			"run brig outside of the container, or with its /proc uncovered: docker run --security-opt systempaths=unconfined",
		},
		{confine.CodePIDRefused, "a process namespace was refused", "sudo sysctl user.max_pid_namespaces=10000, or start a Docker engine"},
		{confine.CodeNetRefused, "a network namespace was refused", "sudo sysctl user.max_net_namespaces=10000, or start a Docker engine"},
		{confine.CodeNetShared, "host.network is allow", "set host.network to deny"},
		{codeNoLoopback, "host.network is loopback, and there is no loopback of its own", "set host.network to deny, or use the docker backend"},
		{codeVsock, "sockets to the machine that runs this one (vsock) do not belong to a network namespace", remedyKernel},
		{codeAbstract, "sockets with abstract names lie in no directory and belong to the machine's network", "set host.network to deny, or start a Docker engine"},
		{codeInGrants, "their socket files lie in directories that Python needs", "keep sockets out of the directories of the system and of the interpreter, then: brig doctor"},
		{codeSysV, "without namespaces and without a filter System V objects of the user are open", remedyKernel},
		{confine.CodeLandlockNotBuilt, "this kernel was built without Landlock", remedyKernel},
		{
			confine.CodeLandlockNotBoot, "this kernel has Landlock, but it is not among the security modules chosen at boot",
			"add landlock to the lsm= parameter of the kernel and restart, or start a Docker engine",
		},
		{codeNoLandlock, "Landlock is not there to see it", remedyKernel},
		{codeNoTruncate, "this kernel's Landlock does not see truncation", remedyKernel},
		{codeNoScope, "this kernel's Landlock has no scope for signals", remedyKernel},
		{codeErratum, "this kernel's Landlock has the scope for signals, but not its correction", remedyKernel},
		{codeNoUnix, "this kernel's Landlock does not see sockets that lie in a directory", remedyKernel},
		{codeTCPOnly, "Landlock sees plain TCP only, and there is no filter", remedyKernel},
		{confine.CodeSeccompNotBuilt, "this kernel was built without system call filters", remedyKernel},
		{confine.CodeSeccompArch, "brig has no system call filter for this processor", remedyDocker},
		{codeCapabilities, "capabilities were left that can undo mounts", remedyReport},
		{codeNprocRoot, "the kernel does not bound root", "do not run brig as root"},
		{codeNprocUser, "the kernel counts all processes of the user, so programs outside use up the limit and free it", remedyDocker},
		{
			confine.CodeCgroupV1, "the controllers are bound to the hierarchies of version 1",
			"add systemd.unified_cgroup_hierarchy=1 to the parameters of the kernel and restart, or start a Docker engine",
		},
		{confine.CodeCgroupMissing, "no control groups of version 2 can be seen here", remedyDocker},
		{confine.CodeCgroupReadOnly, "the control groups are mounted read-only, as in a container", "run brig outside of the container, or start a Docker engine"},
		{confine.CodeCgroupDelegation, "no control group is delegated to this user", "systemd-run --user --scope -p Delegate=yes brig run, or start a Docker engine"},
		{confine.CodeCgroupControl, "controllers were not handed down to the control group of this user", "sudo systemctl edit user@.service, with the lines [Service] and Delegate=cpu memory pids, and log in again; or start a Docker engine"},
		{confine.CodeCgroupOccupied, "other programs run in brig's control group, so it cannot be divided", "systemd-run --user --scope -p Delegate=yes brig run, or start a Docker engine"},
		{confine.CodeCgroupRefused, "the kernel refused a control group or one of its limits", remedyDocker},
		{codeOwnGroup, "the files of the control group belong to the user, and nothing keeps the code from them", remedyKernel},
		{codePerProcess, "the kernel bounds each process by itself", remedyDocker},
		{codeDiskWatched, "the kernel bounds each file by itself", remedyDocker},
		{codeAffinity, "code can choose other processors for itself", remedyDocker},
		{codeNotDivided, "processors cannot be divided without a control group", remedyDocker},
		{codeSharedKernel, "the code shares the kernel of this machine", "start a Docker engine with the gVisor runtime and set docker.runtime to runsc"},
		{codeNotWatched, "nobody watches the limit for the whole tree of processes", remedyReport},
		{codeNotApplied, "it was not applied", remedyReport},
		{codeVisible + "files", "there is no root of its own, for the reason that the row gives", remedyReport},
		{codeVisible + "processes", "there is no process namespace, for the reason that the row gives", remedyReport},
		{codeVisible + "network", "there is no network namespace, for the reason that the row gives", remedyReport},
		{codeEndable, "no layer here keeps signals from them", remedyKernel},
		{codeDescriptors, "descriptors were open when the runner started, beside its three pipes", remedyReport},
		{codeVariable, "the runner was started with variables that are not on brig's list", remedyReport},
		{codeProbeDisagree, "it was reported as applied, and an attempt from inside succeeded all the same", remedyReport},
	}
}

// why finds the words of a code; one that nobody knows was not applied.
func why(code string) reason {
	for _, r := range reasons() {
		if r.code == code {
			return r
		}
	}
	cause := "it was not applied"
	if code != "" {
		cause += ", for the reason " + code
	}
	return reason{codeNotApplied, cause, remedyReport}
}

// whyABI is why of a code with the ABI of Landlock in it.
func whyABI(code string, abi int) reason {
	r := why(code)
	r.code = strings.ReplaceAll(r.code, "-N-", "-"+strconv.Itoa(abi)+"-")
	return r
}

// whyNot words why a part of the report was not applied, with what the kernel answered.
func whyNot(l confine.Layer) reason {
	r := why(l.Code)
	if l.Errno != "" {
		r.cause += " (" + l.Errno + ")"
	}
	return r
}
