package selftest

import (
	"path"
	"slices"
	"strings"

	"brig/orchestrator/sandbox"
)

// platform is what a probe may exist on or not.
type platform struct{ system, arch string }

// elsewhere says on what a probe exists, if that is not here.
func (p Probe) elsewhere(here platform) string {
	for _, l := range []struct {
		wanted []string
		have   string
	}{{p.Archs, here.arch}, {p.Systems, here.system}} {
		if len(l.wanted) > 0 && !slices.Contains(l.wanted, l.have) {
			return "it exists on " + strings.Join(l.wanted, ", ") + " only"
		}
	}
	return ""
}

// onLinux and onUnix are the probes, as path.Match patterns, whose attempts go by
// calls or files that other systems do not have.
func onLinux() []string {
	return []string{
		"kernel-*", "capabilities-*", "no-new-privileges-*", "control-stream", "control-memory", "control-fetch", "devices-open",
		"environment-ancestors", "net-mptcp", "net-fastopen", "net-high-bits", "net-raw", "net-packet", "net-netlink", "net-vsock", "net-alg",
		"net-families", "net-table", "unix-abstract", "files-proc-*", "files-shm", "files-shared-read", "files-shared-make", "files-o-path",
		"files-xattr", "files-cgroup", "files-watch", "files-mounts", "processes-thread-kill", "processes-pidfd*", "processes-sigio",
		"processes-ptrace", "processes-vm-read", "processes-mem", "processes-environ", "processes-prlimit", "processes-scheduler",
		"processes-ioprio", "processes-affinity", "processes-oom-score", "processes-sysv", "processes-cmdline",
	}
}

func onUnix() []string {
	return []string{
		"unix-*", "files-fifo", "files-symlink", "files-plant-symlink", "files-chown", "files-elsewhere", "files-read-public", "files-list-public", "devices-terminal", "inherited-fd",
		"control-descriptor", "control-input", "processes-kill", "processes-kill-brig", "processes-nice", "limit-open-files", "limit-raise",
		"limit-file-size", "limit-cpu",
	}
}

// written tells for each probe what its attempt is written for.
func written(all []Probe) []Probe {
	for i := range all {
		matches := func(pattern string) bool {
			ok, err := path.Match(pattern, all[i].ID)
			return err == nil && ok
		}
		switch {
		case slices.ContainsFunc(onLinux(), matches):
			all[i].Systems = []string{"linux"}
		case slices.ContainsFunc(onUnix(), matches):
			all[i].Systems = []string{"linux", "darwin"}
		}
	}
	return all
}

const (
	bySeatbelt  = "the Seatbelt profile"
	byIntegrity = "the integrity level, or the access rights of files"
	byJob       = "the limit of the job"
)

// inWordsOf adds what stands in the way on another system than Linux, where the same
// attempts are refused by something else.
func inWordsOf(system string, all []Probe) []Probe {
	for i := range all {
		switch system {
		case "darwin":
			all[i].Blocked = seatbelt(all[i].Layer, onDarwin(all[i].Blocked))
			if gap, ok := gapsOnDarwin()[all[i].Layer]; ok {
				all[i].Gaps = append(slices.Clone(all[i].Gaps), gap)
			}
		case "windows":
			all[i].Blocked = onWindows(all[i])
		}
	}
	return all
}

// onDarwin: Seatbelt answers EPERM where the modes of files and Landlock answer EACCES.
func onDarwin(blocked []Evidence) []Evidence {
	words := strings.NewReplacer(
		"Landlock's scope for signals", bySeatbelt, byLandlock, bySeatbelt, byFilter, bySeatbelt,
	)
	var out []Evidence
	for _, e := range blocked {
		if e.Sign == "EACCES" && !slices.ContainsFunc(blocked, func(o Evidence) bool { return o.Step == e.Step && o.Sign == "EPERM" }) {
			out = append(out, Evidence{e.Step, "EPERM", bySeatbelt})
		}
		e.By = words.Replace(e.By)
		out = append(out, e)
	}
	return out
}

// seatbelt adds what a profile answers whatever the step: a socket can be made there
// and is refused when it is used, and everything else at the call that it is about.
func seatbelt(layer sandbox.LayerID, blocked []Evidence) []Evidence {
	switch layer {
	case sandbox.FSRead, sandbox.FSWrite, sandbox.NetOutbound, sandbox.NetLoopback, sandbox.UnixSockets, sandbox.Signals,
		sandbox.Ptrace, sandbox.Devices, sandbox.Seclusion:
		return append(blocked, Evidence{Sign: "EPERM", By: bySeatbelt})
	}
	return blocked
}

// gapsOnDarwin are the codes of rows that say of a Mac what is open on every one.
func gapsOnDarwin() map[sandbox.LayerID]string {
	return map[sandbox.LayerID]string{
		sandbox.MemoryLimit: "macos-no-memory-limit", sandbox.CPULimit: "macos-no-cpu-limit",
		sandbox.Seclusion: "macos-no-namespaces", sandbox.TreeKill: "macos-hidden-daemons",
	}
}

// onWindows: what is no matter of files and limits is not confined there.
func onWindows(p Probe) []Evidence {
	var out []Evidence
	for _, e := range p.Blocked {
		switch {
		case e.Sign == "EACCES" && (p.Layer == sandbox.FSWrite || p.Layer == sandbox.FSRead):
			e.By = byIntegrity
		case p.Layer == sandbox.MemoryLimit && e.Sign == "ENOMEM", p.Layer == sandbox.ProcessLimit && e.Sign == "EAGAIN":
			e.By = byJob
		}
		out = append(out, e)
	}
	return out
}
