package docker

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"brig/orchestrator/sandbox"
)

// notes are what a reader of a posture should know beside its rows.
func (ev evidence) notes() []string {
	notes := []string{
		"runtime " + printable(ev.runtimeName()) + ": " + ev.want.runtime.why,
		"code runs as user " + printable(ev.out.Config.User),
		ev.users().text,
		ev.module().text,
	}
	if ev.kernel() == gvisorKernel {
		notes = append(notes,
			"gVisor: at the memory limit the machine kills a process of the sandbox that is not one of the guest, so one child that takes too much can end the whole session",
			"gVisor: /proc and the control groups inside are the guest's own; limits were read from outside")
	}
	if ev.attempt("exec_workspace") == "ok" {
		notes = append(notes, "files in the workspace can be executed; those in the in-memory file systems cannot")
	}
	if ev.attempt("read_cgroup_path") == "ok" && !ev.kernel().own() {
		notes = append(notes, "the name of the container's control group on the engine's machine is visible inside")
	}
	if ev.tcpUncounted() {
		notes = append(notes, "the engine's machine counts memory by control groups of version 1, and its runtime sets no limit for the buffers of TCP connections: "+
			"only net.ipv4.tcp_mem bounds them, for all of the machine's programs together")
	}
	if ev.want.workspace.directory == "" {
		_, _, size := ev.want.sizes()
		notes = append(notes, fmt.Sprintf("the workspace is in the container's memory, at most %d bytes, and gone with it; files travel through the runner, because %s",
			size, ev.engine.placing().reason))
	}
	if ev.engine.podman {
		notes = append(notes, "the engine is Podman, which does not tell whether the runner's input ends with brig")
	}
	for _, warning := range ev.warnings {
		notes = append(notes, "the engine warned: "+oneLine(warning, maxWarning))
	}
	return notes
}

// finding is what was seen of something that has no row of its own.
type finding struct {
	state sandbox.LayerState
	code  string // of a gap
	what  string // the mechanism, or the gap
	text  string // for the notes
}

// users tells whether the ids inside are those of the engine's machine.
func (ev evidence) users() finding {
	inside, asked := ev.in.UID, ev.engine.secures("userns") || ev.engine.secures("rootless")
	outer, identity, known := mapped(ev.in.UIDMap, inside)
	switch {
	case ev.kernel().own():
		return finding{state: sandbox.Unsupported, text: fmt.Sprintf("user namespace unsupported: user %d is one of the guest kernel's, and how that is mapped cannot be seen inside", inside)}
	case !known:
		return finding{state: sandbox.Off, code: "userns-unknown", what: "the runner could not read how its users are mapped", text: "user namespace off: nothing was read of it inside"}
	case !identity:
		what := fmt.Sprintf("user %d on the engine's machine", outer)
		return finding{state: sandbox.Enforced, what: what, text: fmt.Sprintf("user namespace enforced: user %d inside is %s", inside, what)}
	case asked:
		return finding{
			state: sandbox.Off, code: "userns-not-applied", what: "the engine says that it maps users, and inside they are those of its machine",
			text: "user namespace off, though the engine says that it maps users",
		}
	default:
		return finding{state: sandbox.Off, text: fmt.Sprintf("user namespace off: user %d inside is the same on the engine's machine; userns-remap is a setting of the engine", inside)}
	}
}

// mapped finds an id in the text of a uid_map, which lists triples of first id
// inside, first id outside and count.
func mapped(text string, id int) (outer int64, identity, known bool) {
	numbers := strings.Fields(text)
	for triple := range slices.Chunk(numbers, 3) {
		if len(triple) != 3 {
			break
		}
		var n [3]int64
		for i := range n {
			var err error
			if n[i], err = strconv.ParseInt(triple[i], 10, 64); err != nil {
				return 0, false, false
			}
		}
		if at := int64(id) - n[0]; at >= 0 && at < n[2] {
			return n[1] + at, n[0] == n[1] && len(numbers) == 3, true
		}
	}
	return 0, false, false
}

// module is the security module that confines the container beside everything
// else. The engine repeats a profile also where the machine has no module; what
// counts is the label that the kernel shows.
func (ev evidence) module() finding {
	label := strings.TrimSpace(ev.in.AppArmor)
	if ev.kernel().own() {
		label = ev.outside.label // of the process that the guest lives in
	}
	profile, mode, _ := strings.Cut(label, " ")
	switch {
	case ev.out.ProcessLabel != "" || ev.engine.secures("selinux"):
		if label != "" && label == ev.out.ProcessLabel {
			return finding{state: sandbox.Enforced, what: "SELinux label " + printable(label), text: "SELinux enforced: " + printable(label)}
		}
		return ev.notConfined("selinux-not-applied", "SELinux", ev.out.ProcessLabel, label)
	case ev.out.AppArmorProfile != "" || ev.engine.secures("apparmor"):
		if profile != "" && profile == ev.out.AppArmorProfile && mode == "(enforce)" {
			return finding{state: sandbox.Enforced, what: "AppArmor profile " + printable(profile), text: "AppArmor enforced: " + printable(label)}
		}
		return ev.notConfined("apparmor-not-applied", "AppArmor", ev.out.AppArmorProfile, label)
	default:
		return finding{state: sandbox.Unsupported, text: "AppArmor and SELinux unsupported: the engine's machine has neither"}
	}
}

func (ev evidence) notConfined(code, name, said, label string) finding {
	seen := "the kernel shows " + strconv.Quote(oneLine(label, 80))
	if label == "" {
		seen = "no label could be read"
	}
	what := fmt.Sprintf("the engine says %s %q, and %s", name, oneLine(said, 80), seen)
	return finding{state: sandbox.Off, code: code, what: what, text: name + " off: " + what}
}

// runtimeName is what the engine says it ran the container with.
func (ev evidence) runtimeName() string {
	if name := ev.out.HostConfig.Runtime; name != "" {
		return name
	}
	return ev.engine.info.DefaultRuntime
}

// kernel is whose kernel the rows have to be judged by. gVisor is believed as soon
// as either side names it: what the guest says about its limits is then no evidence.
func (ev evidence) kernel() kernel {
	if strings.Contains(strings.ToLower(ev.in.Kernel), "gvisor") {
		return gvisorKernel
	}
	return ev.runtimeKernel()
}

// runtimeKernel is what the engine's name for the runtime says.
func (ev evidence) runtimeKernel() kernel {
	name := ev.runtimeName()
	return kernelOf(name, ev.engine.info.Runtimes[name])
}
