package hostfallback

import (
	"strings"

	"brig/orchestrator/sandbox"
)

// notes are what is open by design and belongs to no layer's state. Each is true
// for what was applied here: nothing is said to be open that is closed.
func notes(e evidence) []string {
	if e.report.Windows != nil {
		return notesOnWindows(e)
	}
	r := e.report
	if r.Seatbelt != nil {
		return e.seatbeltNotes()
	}
	out := []string{
		"the kernel is shared with the machine",
		"how busy the machine is can be read in /proc",
	}
	if e.base.Mode == sandbox.ModeOff {
		out = append([]string{"not sandboxed: host.sandbox is off, and the code runs as the user, with nothing between it and the files"}, out...)
	}
	if !e.root() {
		out = append(out, "that a file exists, its size and its times can be asked for outside the workspace, path by path")
	}
	if !e.processes() {
		out = append(out,
			"command lines of the user's other processes can be read",
			"the processors that the user's other processes may run on can be changed")
	}
	if !e.ownNetwork() {
		out = append(out, "addresses and connections of this machine can be read in /proc/net")
	}
	if e.root() && (r.Landlock.Used < 9 || !r.Landlock.Applied) && (r.Seccomp.Filter.Unix || !r.Seccomp.Applied) {
		out = append(out, "a socket file that somebody makes in the directories of the system or of the interpreter while the session lives can be reached")
	}
	if r.Landlock.Applied {
		out = append(out, "a program written into the workspace cannot be started by its path, but an interpreter can run it, as confined as everything else")
	}
	if r.Seccomp.Applied && !r.Seccomp.Filter.Metadata {
		out = append(out, "changing a file's mode, owner or times is refused everywhere, also in the workspace")
	}
	switch e.base.Network {
	case sandbox.NetworkAllow:
	case sandbox.NetworkLoopback:
		if e.ownNetwork() && r.Namespaces.Loopback {
			out = append(out, "the loopback is the session's own: nothing but its own processes listens there")
		}
	default:
		if r.Seccomp.Applied && !r.Seccomp.Filter.Inet {
			out = append(out, "loopback is refused as well")
		}
	}
	if lacking := r.Namespaces.Unprotected; e.root() && len(lacking) > 0 {
		out = append(out, "protected paths that are not there cannot be held read-only, and can be made: "+strings.Join(lacking[:min(len(lacking), 8)], ", "))
	}
	if r.Forked != nil {
		out = append(out, e.forkedNotes()...)
	}
	if r.Landlock.Applied && !r.PrivateShm && !r.SharedShm {
		out = append(out, "locks and pools of multiprocessing cannot be made, because /dev/shm could only be shared")
	}
	return out
}
