package confine

import "strconv"

// This file renders a policy for Windows: a job object, a primary token, labels
// and an environment. Everything in it is data and runs on any system; the
// numbers are those of the Windows headers.

// Job is what a job object is told. A zero limit is none.
type Job struct {
	Flags           uint32 `json:"flags"`            // JOB_OBJECT_LIMIT_…
	ProcessMemory   uint64 `json:"process_memory"`   // bytes that one process may commit
	JobMemory       uint64 `json:"job_memory"`       // bytes that all may commit together
	ActiveProcesses uint32 `json:"active_processes"` // processes that may live at a time; threads do not count
	UI              uint32 `json:"ui"`               // JOB_OBJECT_UILIMIT_…
	MilliCPU        int    `json:"milli_cpu"`        // thousandths of a processor that all may use together
}

// Flags of a job, as in winnt.h. The two that let a process out of it,
// JOB_OBJECT_LIMIT_BREAKAWAY_OK and JOB_OBJECT_LIMIT_SILENT_BREAKAWAY_OK, are never set.
const (
	JobActiveProcess  = 0x00000008
	JobProcessMemory  = 0x00000100
	JobMemory         = 0x00000200
	JobDieOnException = 0x00000400 // no dialogue of an error report that waits for somebody
	JobBreakaway      = 0x00000800
	JobSilentBreak    = 0x00001000
	JobKillOnClose    = 0x00002000 // the kernel ends all when brig ends, however that happens
)

// What a job keeps from the user's desktop: handles of its windows, the clipboard
// in both directions, system parameters, display settings, global atoms, other
// desktops, and ending the user's session.
const JobAllUI = 0x000000FF

// LeastProcesses is the lowest limit of processes that a session can live with. The
// runner is two of them, the python.exe of a virtual environment is a launcher
// that starts the interpreter as another, so four; the rest is for what the code starts.
const LeastProcesses = 16

// Job renders the limits of a policy.
func (p Policy) Job() Job {
	j := Job{Flags: JobKillOnClose | JobDieOnException}
	if m := p.Limits.Memory; m > 0 {
		j.Flags |= JobProcessMemory | JobMemory
		j.ProcessMemory, j.JobMemory = uint64(m), uint64(m)
	}
	if n := p.Limits.Processes; n > 0 {
		j.Flags |= JobActiveProcess
		j.ActiveProcesses = uint32(min(max(n, LeastProcesses), 1<<20))
	}
	if p.Limits.MilliCPU > 0 {
		j.MilliCPU = p.Limits.MilliCPU
	}
	if p.Mode != ModeOff {
		j.UI = JobAllUI
	}
	return j
}

// Rate is the limit of processor time in the unit of
// JOBOBJECT_CPU_RATE_CONTROL_INFORMATION: hundredths of a percent of all
// processors together; 0 is no limit.
func (j Job) Rate(processors int) uint32 {
	if j.MilliCPU <= 0 || processors <= 0 || j.MilliCPU >= processors*1000 {
		return 0
	}
	return uint32(max(j.MilliCPU*10/processors, 1))
}

// Integrity levels. A process may write to nothing that has a higher one than
// itself, and nothing says that it may not read it.
const (
	SIDLow    = "S-1-16-4096"
	SIDMedium = "S-1-16-8192" // of everything that a user starts
)

// PrimaryToken is what is made of a copy of brig's own token.
type PrimaryToken struct {
	// Integrity is the level that the copy is lowered to; empty leaves it as it is.
	Integrity string `json:"integrity,omitempty"`
	// DropPrivileges removes every privilege but SeChangeNotifyPrivilege, without
	// which no path can be walked (DISABLE_MAX_PRIVILEGE of CreateRestrictedToken).
	DropPrivileges bool `json:"drop_privileges"`
}

// PrivilegeKept is the one that DropPrivileges leaves.
const PrivilegeKept = "SeChangeNotifyPrivilege"

// PrimaryToken renders the mode of a policy. Dropped privileges are hygiene and stay when
// the sandbox is off.
func (p Policy) PrimaryToken() PrimaryToken {
	t := PrimaryToken{DropPrivileges: true}
	if p.Mode != ModeOff {
		t.Integrity = SIDLow
	}
	return t
}

// Label is a directory that is given the low level, so that a process of that
// level can write there.
type Label struct {
	Path string `json:"path"`
	// SDDL is for a directory, and inherited by what is made in it; Entry for a file.
	SDDL  string `json:"sddl"`
	Entry string `json:"entry"`
	// Restore says that the directory outlives the instance: the label it had
	// before, and that of everything in it, has to be brought back.
	Restore bool `json:"restore"`
}

// The mandatory label ML at the level LW, which refuses writing (NW) to what is
// below it; OI and CI hand it down to files and directories.
const (
	labelDirectory = "S:(ML;OICI;NW;;;LW)"
	labelEntry     = "S:(ML;;NW;;;LW)"
	// LabelNone removes a label: what has none counts as medium.
	LabelNone = "S:"
)

// Labels renders the places that may be written to. What is labelled can be
// written to by every other process of that level too, such as the one that shows
// a page in a browser; so a workspace is labelled only while its instance lives.
func (p Policy) Labels() []Label {
	if p.Mode == ModeOff {
		return nil
	}
	return []Label{
		{Path: p.Workspace, SDDL: labelDirectory, Entry: labelEntry, Restore: true},
		{Path: p.Scratch, SDDL: labelDirectory, Entry: labelEntry},
	}
}

// WindowsPlace is what an environment is made for.
type WindowsPlace struct {
	Root    string // the directory of Windows, such as C:\Windows
	Python  string // the interpreter, an absolute path
	Scratch string
	Token   string // of the plan
	Threads int
}

// Environment is everything that an instance finds in its environment. Of the
// user's own nothing is passed on; what Windows itself needs is made anew.
func (w WindowsPlace) Environment() []string {
	threads := strconv.Itoa(max(w.Threads, 1))
	bin := directoryOf(w.Python)
	return []string{
		"SystemRoot=" + w.Root, "windir=" + w.Root, "SystemDrive=" + driveOf(w.Root), "OS=Windows_NT",
		`ComSpec=` + w.Root + `\System32\cmd.exe`, "PATHEXT=.COM;.EXE;.BAT;.CMD",
		"PATH=" + bin + ";" + bin + `\Scripts;` + w.Root + `\System32;` + w.Root,
		"TEMP=" + w.Scratch, "TMP=" + w.Scratch, "HOME=" + w.Scratch, "USERPROFILE=" + w.Scratch,
		"HOMEDRIVE=" + driveOf(w.Scratch), "HOMEPATH=" + w.Scratch[len(driveOf(w.Scratch)):],
		"APPDATA=" + w.Scratch + `\AppData\Roaming`, "LOCALAPPDATA=" + w.Scratch + `\AppData\Local`,
		"USERNAME=brig", "XDG_CACHE_HOME=" + w.Scratch + `\.cache`,
		"MPLCONFIGDIR=" + w.Scratch + `\.matplotlib`, "MPLBACKEND=agg",
		"PYTHONUNBUFFERED=1", "PYTHONUTF8=1",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=NUL",
		"NUMBER_OF_PROCESSORS=" + threads,
		"OMP_NUM_THREADS=" + threads, "OPENBLAS_NUM_THREADS=" + threads, "MKL_NUM_THREADS=" + threads,
		"NUMEXPR_NUM_THREADS=" + threads,
		Marker + "=" + w.Token,
	}
}

// directoryOf and driveOf read Windows paths on any system.
func directoryOf(path string) string {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '\\' || path[i] == '/' {
			return path[:i]
		}
	}
	return "."
}

func driveOf(path string) string {
	if len(path) >= 2 && path[1] == ':' {
		return path[:2]
	}
	return ""
}

// Windows is what was read back of all this, after the runner was made and
// before its first instruction.
type Windows struct {
	// Emulated is what only claims to be Windows, with its version; empty on Windows.
	Emulated string `json:"emulated,omitempty"`
	// Job says that the runner is in the job.
	Job  Layer `json:"job"`
	Born bool  `json:"born"` // it was made in it; otherwise assigned before its first instruction
	Want Job   `json:"want"` // as it was rendered
	Got  Job   `json:"got"`  // as QueryInformationJobObject answered
	// Rates are the limits of processor time in the job's own unit.
	WantRate uint32 `json:"want_rate,omitempty"`
	GotRate  uint32 `json:"got_rate,omitempty"`
	// Integrity and Privileges are those of the runner's token, as
	// GetTokenInformation answered.
	Integrity  string   `json:"integrity"`
	Privileges []string `json:"privileges"`
	// Labelled says that workspace and scratch carry the low label, as
	// GetSecurityInfo answered; otherwise Unlabelled says why not.
	Labelled   bool   `json:"labelled"`
	Unlabelled string `json:"unlabelled,omitempty"`
	// Handles are those that the runner was allowed to inherit.
	Handles int `json:"handles"`
}

// Low says that the runner cannot write to what has the level of the user's files.
func (w Windows) Low() bool { return w.Integrity == SIDLow }

// Reasons why something of a job, a token or a label does not hold.
const (
	CodeEmulated     = "emulated-windows"     // it was accepted and is not there
	CodeReadBack     = "probe-disagrees"      // the same, of a Windows that is one
	CodeJobRefused   = "windows-job-refused"  // there is no job
	CodeLabelRefused = "windows-label-denied" // the file system or its owner takes no label
	CodeReadsOpen    = "windows-reads-open"
	CodeNetworkOpen  = "windows-network-open"
	CodePipesOpen    = "windows-pipes-open"
	CodeNoFilter     = "windows-no-syscall-filter"
)
