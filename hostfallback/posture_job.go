package hostfallback

import (
	"fmt"
	"slices"
	"strings"

	"brig/hostfallback/confine"
	"brig/orchestrator/sandbox"
)

// The rows of Windows. They are made of what was read back from the job, the
// token and the labels; what was accepted and does not read back is off.

// promisedOnWindows are what the host sandbox stands for there. Reading and the
// network belong to the promise of every host sandbox, and a low integrity level
// gives neither: so a session is weakened, and require refuses it.
func promisedOnWindows(base sandbox.Base) []sandbox.LayerID {
	ids := []sandbox.LayerID{
		sandbox.FSWrite, sandbox.FSRead, sandbox.NetOutbound, sandbox.ProcessLimit, sandbox.MemoryLimit,
		sandbox.Capabilities, sandbox.Signals, sandbox.Ptrace, sandbox.InheritedFDs, sandbox.Environment, sandbox.TreeKill,
	}
	if base.Network == sandbox.NetworkAllow {
		ids = slices.DeleteFunc(ids, func(id sandbox.LayerID) bool { return id == sandbox.NetOutbound })
	}
	return ids
}

// Codes of gaps that every Windows has.
const (
	codeLowPlaces  = "windows-low-places"
	codeLowOthers  = "windows-low-processes"
	codeConsent    = "windows-consent-prompt"
	codeVisibleWin = "windows-visible"
	codeDevicesWin = "windows-devices-open"
)

func windowsReasons() []reason {
	return []reason{
		{confine.CodeEmulated, "this is no Windows but an emulation, which accepts the setting and does nothing", "run brig on Windows, or on this system itself"},
		{confine.CodeJobRefused, "the runner is in no job object of brig's", remedyDockerDesktop},
		{confine.CodeLabelRefused, "the file system or the owner of the workspace does not let its integrity label be changed", "move the workspace to an NTFS disk of this user, or start Docker Desktop"},
		{confine.CodeReadsOpen, "an integrity level keeps code from writing to the user's files, not from reading them", remedyDockerDesktop},
		{confine.CodeNetworkOpen, "Windows closes the network to a program only for an administrator or for an app package", remedyDockerDesktop},
		{confine.CodePipesOpen, "named pipes of the user's programs that let everybody in can be opened", remedyDockerDesktop},
		{confine.CodeNoFilter, "Windows has no filter of system calls that a program could put on another", remedyDockerDesktop},
		{codeLowPlaces, "what every program of low integrity may write to can be written to, such as AppData\\LocalLow", remedyDockerDesktop},
		{codeLowOthers, "other programs of low integrity of the same user are no better guarded than the code", remedyDockerDesktop},
		{codeConsent, "code can make Windows ask the user whether a program may run as administrator", "answer such questions with no, or start Docker Desktop"},
		{codeVisibleWin, "files, processes and pipes of the user can be listed", remedyDockerDesktop},
		{codeDevicesWin, "devices that let every program of the user in can be opened", remedyDockerDesktop},
	}
}

const remedyDockerDesktop = "start Docker Desktop, then: brig doctor"

// onWindows is the row of one layer there.
func (e evidence) onWindows(id sandbox.LayerID) sandbox.Layer {
	w := e.report.Windows
	switch id {
	case sandbox.FSWrite:
		row := partial("low integrity, labelled workspace and scratch", "", why(codeLowPlaces))
		return e.seenOnWindows(e.low(row), "write_outside")
	case sandbox.FSRead:
		return e.lacking(confine.CodeReadsOpen)
	case sandbox.NetOutbound, sandbox.NetLoopback:
		if e.base.Network == sandbox.NetworkAllow {
			return off(confine.CodeNetShared, "")
		}
		return e.lacking(confine.CodeNetworkOpen)
	case sandbox.UnixSockets:
		return e.low(partial("low integrity", "", why(confine.CodePipesOpen)))
	case sandbox.ProcessLimit:
		return e.jobLimit(confine.JobActiveProcess, uint64(w.Want.ActiveProcesses), uint64(w.Got.ActiveProcesses), "active processes")
	case sandbox.MemoryLimit:
		row := e.jobLimit(confine.JobMemory, w.Want.JobMemory, w.Got.JobMemory, "committed bytes")
		if row.State == sandbox.Enforced && (w.Got.Flags&confine.JobProcessMemory == 0 || w.Got.ProcessMemory != w.Want.ProcessMemory) {
			return e.disagrees(row.Mechanism)
		}
		return row
	case sandbox.CPULimit:
		if w.GotRate != w.WantRate {
			return e.disagrees("job object, rate of processor time")
		}
		if w.WantRate == 0 {
			return enforced("not above what the machine has")
		}
		return enforced(fmt.Sprintf("job object, %d.%02d%% of all processors", w.GotRate/100, w.GotRate%100))
	case sandbox.DiskLimit:
		if e.watch.Disk <= 0 {
			return off(codeNotWatched, "")
		}
		row := partial(fmt.Sprintf("workspace and scratch watched at %d bytes", e.watch.Disk), "", why(codeDiskWatched))
		row.Reason = "workspace and scratch are measured once a second and the session is ended above the limit, so more can be written between two looks"
		return row
	case sandbox.OutputLimit:
		return e.outputLimit()
	case sandbox.WallClock:
		return enforced(brigsTimer) // should brig be ended, the kernel closes the job
	case sandbox.NoNewPrivs:
		return e.low(partial("low integrity", "", why(codeConsent)))
	case sandbox.Capabilities:
		if slices.Equal(w.Privileges, []string{confine.PrivilegeKept}) {
			return enforced("restricted token without privileges")
		}
		return e.disagrees("restricted token without privileges")
	case sandbox.SyscallFilter, sandbox.KernelSurface:
		return e.lacking(confine.CodeNoFilter)
	case sandbox.Signals:
		return e.seenOnWindows(e.low(partial("low integrity", "", why(codeLowOthers))), "kill_parent")
	case sandbox.Ptrace:
		return e.seenOnWindows(e.low(partial("low integrity", "", why(codeLowOthers))), "kill_parent")
	case sandbox.Seclusion:
		return e.lacking(codeVisibleWin)
	case sandbox.InheritedFDs:
		if w.Handles != 3 {
			return off(codeDescriptors, "")
		}
		return enforced("list of the three handles that may be inherited")
	case sandbox.Environment:
		return e.environmentOnWindows()
	case sandbox.Devices:
		return e.low(partial("low integrity", "", why(codeDevicesWin)))
	case sandbox.TreeKill:
		return e.treeKillOnWindows()
	}
	panic("BUG: no row for layer " + string(id))
}

// low is a row that holds only if the runner has the low level as it was read back.
func (e evidence) low(row sandbox.Layer) sandbox.Layer {
	w := e.report.Windows
	switch {
	case e.base.Mode == sandbox.ModeOff:
		return off(confine.CodeOff, "")
	case !w.Low():
		out := e.disagrees(row.Mechanism)
		out.Reason = "the runner has the integrity level " + w.Integrity + ", because " + out.Reason
		return out
	case !w.Labelled:
		// It cannot be: such a start is refused. If it is, no row may hold.
		return off(confine.CodeLabelRefused, "")
	}
	return row
}

// jobLimit is a limit that the kernel keeps for all processes of a job together.
func (e evidence) jobLimit(flag uint32, want, got uint64, what string) sandbox.Layer {
	w := e.report.Windows
	mechanism := fmt.Sprintf("job object, %s=%d", what, want)
	switch {
	case want == 0:
		return off(confine.CodeNotAsked, "")
	case !w.Job.Applied:
		return off(confine.CodeJobRefused, "")
	case w.Got.Flags&flag == 0 || got != want:
		return e.disagrees(mechanism)
	}
	return enforced(mechanism)
}

// disagrees is a layer that was accepted and does not read back.
func (e evidence) disagrees(mechanism string) sandbox.Layer {
	w := e.report.Windows
	row := off(confine.CodeReadBack, "the setting was accepted, but Windows does not say so when it is asked")
	if w.Emulated != "" {
		row = off(confine.CodeEmulated, "")
	}
	row.Mechanism = mechanism
	return row
}

// lacking is a layer that Windows does not have.
func (e evidence) lacking(code string) sandbox.Layer {
	r := why(code)
	if e.base.Mode == sandbox.ModeOff {
		return off(confine.CodeOff, "")
	}
	return sandbox.Layer{State: sandbox.Unsupported, Code: r.code, Reason: r.cause, Remedy: r.remedy}
}

// seenOnWindows lets an attempt of the runner that succeeded win over the row.
func (e evidence) seenOnWindows(row sandbox.Layer, attempt string) sandbox.Layer {
	outcome := e.saw(attempt)
	if outcome == "ok" && (row.State == sandbox.Enforced || row.State == sandbox.Partial) {
		row = off(codeProbeDisagree, "it was applied, but "+strings.ReplaceAll(attempt, "_", " ")+" succeeded from inside")
	}
	if outcome != "" {
		row.Evidence = words(row.Evidence, attempt+"="+outcome)
	}
	return row
}

func (e evidence) environmentOnWindows() sandbox.Layer {
	known := map[string]bool{"__PYVENV_LAUNCHER__": true} // Python's own, in a virtual environment
	for _, entry := range (confine.WindowsPlace{}).Environment() {
		name, _, _ := strings.Cut(entry, "=")
		known[strings.ToUpper(name)] = true
	}
	names := slices.Clone(e.report.Variables)
	if e.observed != nil {
		names = append(names, e.observed.Environ...)
	}
	var foreign []string
	for _, name := range names {
		if name != "" && !known[strings.ToUpper(name)] && !slices.Contains(foreign, name) {
			foreign = append(foreign, name)
		}
	}
	if len(foreign) > 0 {
		slices.Sort(foreign)
		return off(codeVariable, "the runner was started with "+strings.Join(foreign, ", "))
	}
	return enforced("a fixed list, nothing inherited")
}

// treeKillOnWindows has two halves: brig ends the job, and the kernel does when
// brig has ended. The second is a flag of the job.
func (e evidence) treeKillOnWindows() sandbox.Layer {
	w := e.report.Windows
	if !w.Job.Applied {
		return off(confine.CodeJobRefused, "")
	}
	if w.Got.Flags&confine.JobKillOnClose == 0 || w.Got.Flags&(confine.JobBreakaway|confine.JobSilentBreak) != 0 {
		row := e.disagrees("job object")
		row.State = sandbox.Partial
		row.Reason = "should brig be killed, it may leave processes behind, because " + row.Reason
		return row
	}
	return enforced("job object, closed by the kernel when brig ends")
}

// reportedOnWindows is what was read back about a layer.
func (e evidence) reportedOnWindows(id sandbox.LayerID) string {
	w := e.report.Windows
	switch id {
	case sandbox.FSWrite:
		return words("integrity="+w.Integrity, labelsWord(*w))
	case sandbox.NoNewPrivs, sandbox.Signals, sandbox.Ptrace, sandbox.UnixSockets, sandbox.Devices:
		return "integrity=" + w.Integrity
	case sandbox.Capabilities:
		return "privileges=" + strings.Join(w.Privileges, ",")
	case sandbox.ProcessLimit:
		return fmt.Sprintf("ActiveProcessLimit=%d LimitFlags=%#x", w.Got.ActiveProcesses, w.Got.Flags)
	case sandbox.MemoryLimit:
		return fmt.Sprintf("JobMemoryLimit=%d ProcessMemoryLimit=%d LimitFlags=%#x", w.Got.JobMemory, w.Got.ProcessMemory, w.Got.Flags)
	case sandbox.CPULimit:
		return fmt.Sprintf("CpuRate=%d", w.GotRate)
	case sandbox.DiskLimit:
		return fmt.Sprintf("watched=%d", e.watch.Disk)
	case sandbox.InheritedFDs:
		return fmt.Sprintf("handles=%d", w.Handles)
	case sandbox.Environment:
		return fmt.Sprintf("%d variables: %s", len(e.report.Variables), strings.Join(e.report.Variables, " "))
	case sandbox.TreeKill:
		return fmt.Sprintf("IsProcessInJob=%d born=%d LimitFlags=%#x", bit(w.Job.Applied), bit(w.Born), w.Got.Flags)
	}
	return ""
}

func labelsWord(w confine.Windows) string {
	if w.Labelled {
		return "workspace and scratch are labelled low"
	}
	return "not labelled: " + w.Unlabelled
}

// notesOnWindows are what is open by design there.
func notesOnWindows(e evidence) []string {
	out := []string{
		"not verified by us on Windows itself: the same code ran where the kernel only looks like it; to see for yourself: brig selftest --backend host",
		"the kernel is shared with the machine",
		"all files that the user can read can be read, and the network is open",
		"while a session lives, every program of low integrity can write to its workspace",
	}
	if w := e.report.Windows; w.Got.UI != w.Want.UI {
		out = append(out, "the clipboard and the windows of the user's desktop are not out of reach: the job has no limits of the desktop, which it cannot have where brig itself runs in a job")
	}
	if w := e.report.Windows; w.Emulated != "" {
		out = append([]string{"this is " + w.Emulated + " and no Windows: it accepts limits and levels without keeping them"}, out...)
	}
	if e.base.Mode == sandbox.ModeOff {
		out = append([]string{"not sandboxed: host.sandbox is off, and the code runs as the user, with nothing between it and the files"}, out...)
	}
	return out
}

// agreesOnWindows checks a report against the plan: that it answers this plan, and
// that nothing goes beyond it. What a Windows did not keep is no defect but a row.
func agreesOnWindows(plan confine.Plan, w confine.Windows) error {
	if w.Want != plan.Job() {
		return fmt.Errorf("confine the runner: the report does not fit its plan: another job")
	}
	if plan.Mode == confine.ModeOff && (w.Low() || w.Labelled) {
		return fmt.Errorf("confine the runner: the report does not fit its plan: layers beyond the plan")
	}
	if w.Handles != 3 {
		return fmt.Errorf("confine the runner: the report does not fit its plan: handles")
	}
	return nil
}
