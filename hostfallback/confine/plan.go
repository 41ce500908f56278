package confine

import "time"

// Descriptors that the supervisor finds open when it starts, beside the
// runner's standard streams on 0 to 2.
const (
	FDControl = 3 // reads the plan, one line of JSON; its end is the order to end
	FDStatus  = 4 // writes Events, one line of JSON each
)

// LockFile is the name of an instance's lock file. Whoever works for an instance
// holds a shared lock on it; who gets the exclusive one may take it for abandoned.
const LockFile = "lock"

// Plan is everything that the supervisor and the helper are told. It travels
// over a pipe, because arguments and environment can be read by others.
type Plan struct {
	Token   string   `json:"token"`   // names the instance; stands in the environment of its processes
	Command []string `json:"command"` // Command[0] is an absolute path
	Env     []string `json:"env"`
	// Home is the directory of the instance, with LockFile in it; Scratch may be
	// inside. The supervisor holds the lock while it lives and removes Home at the end.
	Home string `json:"home"`
	Policy
	// Zygote makes this the plan of an interpreter that sessions are forked from.
	Zygote *Zygote `json:"zygote,omitempty"`
	// CheckOnly ends the helper after its report instead of running Command.
	CheckOnly bool `json:"check_only,omitempty"`
	sabotaged
}

// Failure is a step that did not work. Errno is the kernel's number, or 0.
type Failure struct {
	Stage string `json:"stage"` // one of the Stage constants
	Errno int    `json:"errno,omitempty"`
	Text  string `json:"text"`
}

func (f *Failure) Error() string { return f.Stage + ": " + f.Text }

// Stages in which a start can fail.
const (
	StagePlan      = "plan"
	StageLock      = "lock"
	StageFork      = "fork"
	StageCgroup    = "control group"
	StageSession   = "session"
	StageNamespace = "namespace"
	StageNetwork   = "network"
	StageRoot      = "root"
	StageProc      = "proc"
	StageFiles     = "descriptors"
	StageLimits    = "limits"
	StagePrivs     = "privileges"
	StageLabels    = "labels"
	StageLandlock  = "landlock"
	StageSeccomp   = "seccomp"
	StageSeatbelt  = "seatbelt"
	StageReport    = "report"
	StageExec      = "exec"
)

// Report is what the helper did, written after the last layer was applied and
// before it became the runner. Values are what the kernel accepted or answered.
type Report struct {
	Kernel     string            `json:"kernel"`
	UID        int               `json:"uid"`
	Namespace  Layer             `json:"namespace"`  // users, mounts and System V objects of its own
	Namespaces Namespaces        `json:"namespaces"` // what else of that kind; empty unless Namespace was applied
	Cgroup     Cgroup            `json:"cgroup"`
	PrivateShm bool              `json:"private_shm"`    // /dev/shm is the instance's own
	SharedShm  bool              `json:"shared_shm"`     // /dev/shm of the machine is granted
	Limits     map[string]uint64 `json:"limits"`         // rlimits by name, as getrlimit answered after they were set
	CPUs       int               `json:"cpus"`           // processors it may use
	Processors []int             `json:"processors"`     // their numbers, as sched_getaffinity answered last
	Mark       uint64            `json:"mark,omitempty"` // by which Rescue finds its processes; 0: none, as where a process namespace holds them
	Narrowed   bool              `json:"narrowed"`       // they are fewer than brig may use
	NoNewPrivs bool              `json:"no_new_privs"`
	CapEff     string            `json:"cap_eff"`   // hex, as capget answered after they were dropped
	Kept       []int             `json:"kept"`      // descriptors that stay open when the runner starts
	Closed     int               `json:"closed"`    // descriptors that are closed by that
	Variables  []string          `json:"variables"` // names of the environment that the runner is started with
	Landlock   Landlock          `json:"landlock"`
	Seccomp    Seccomp           `json:"seccomp"`
	Took       []Took            `json:"took,omitempty"`     // in the order of the steps
	Seatbelt   *Seatbelt         `json:"seatbelt,omitempty"` // of a Mac, where of the above only UID, Kernel, Limits, Kept, Closed and Variables are told
	Windows    *Windows          `json:"windows,omitempty"`  // of a Windows, where nothing of the above but UID and Variables is told
	Forked     *Forked           `json:"forked,omitempty"`   // nil: started by an execve of its own
}

// Took is how long a step of a start took.
type Took struct {
	Step string        `json:"step"`
	Took time.Duration `json:"ns"`
}

// Layer says whether something was applied and, where not, why. Code is one of
// the Code constants; Errno the name of what the kernel answered.
type Layer struct {
	Applied bool   `json:"applied"`
	Code    string `json:"code,omitempty"`
	Errno   string `json:"errno,omitempty"`
}

// Namespaces are the parts of a namespace sandbox that a machine may refuse one by one.
type Namespaces struct {
	// Root: the file system is made of what the policy names and nothing else.
	Root Layer `json:"root"`
	// Process: processes outside cannot be seen or named, /proc is the instance's
	// own, and its end ends everything in it.
	Process Layer `json:"process"`
	// Network: a network stack of its own, where nothing is, and abstract socket
	// names of its own.
	Network Layer `json:"network"`
	// Loopback: the loopback device of that stack is up.
	Loopback bool `json:"loopback"`
	// Unprotected are protected paths inside the workspace that are not there and
	// so cannot be kept read-only.
	Unprotected []string `json:"unprotected,omitempty"`
}

// Cgroup is the control group (version 2) of the whole tree. Limits are as they
// were read back; 0 is none. It is applied when every limit that was asked for is
// there. A group without limits still ends the tree and lists it: then Kill or Path
// is set, and the code says why there are no limits. Its files belong to the user:
// the limits bind code only where Landlock or namespaces keep it from them.
type Cgroup struct {
	Layer
	Path      string `json:"path,omitempty"`   // below the mount of the hierarchy
	Memory    int64  `json:"memory,omitempty"` // memory.max in bytes, with memory.swap.max 0
	Processes int    `json:"processes,omitempty"`
	MilliCPU  int    `json:"milli_cpu,omitempty"`
	Kill      bool   `json:"kill,omitempty"` // cgroup.kill exists, and ends the tree at once
	// Lacks are controllers, or files of them, that the limits would have needed.
	Lacks []string `json:"lacks,omitempty"`
}

// Landlock is the ruleset that was enforced.
type Landlock struct {
	Layer
	ABI     int      `json:"abi"`    // of the kernel
	Used    int      `json:"used"`   // of the preset that was enforced
	Errata  int      `json:"errata"` // fixes the kernel says it has
	Net     bool     `json:"net"`    // TCP connect and bind are refused
	Handled Handled  `json:"handled"`
	Rules   int      `json:"rules"`
	ByKind  Rules    `json:"by_kind"`
	Missing []string `json:"missing,omitempty"` // grants whose path could not be used
}

// Handled are the rights that the ruleset refuses unless a rule grants them, as
// the kernel's bits.
type Handled struct {
	FS     uint64 `json:"fs"`
	Net    uint64 `json:"net"`
	Scoped uint64 `json:"scoped"`
}

// Rules counts the rules of a ruleset by what they grant.
type Rules struct {
	Write   int `json:"write"`
	Execute int `json:"execute"`
	Read    int `json:"read"`
	Devices int `json:"devices"`
	Shm     int `json:"shm"`
}

// Seccomp is the system call filter that was installed.
type Seccomp struct {
	Layer
	Arch   string `json:"arch,omitempty"`
	Filter Filter `json:"filter"`
	Length int    `json:"length,omitempty"`
	Hash   string `json:"hash,omitempty"`
}

// Reasons why a layer was not applied.
const (
	CodeOff              = "host-sandbox-off"
	CodeNotAsked         = "not-asked"
	CodeZygote           = "zygote" // each session that is forked from it applies its own
	CodeUsernsAppArmor   = "userns-apparmor"
	CodeUsernsSysctl     = "userns-sysctl"
	CodeUsernsOthers     = "userns-others-sysctl" // those of mounts, System V objects, names or control groups
	CodeUsernsRefused    = "userns-refused"
	CodeMountRefused     = "userns-mount-refused"
	CodeProcMasked       = "userns-proc-masked" // a private /proc is refused, because parts of the visible one are covered
	CodePIDRefused       = "pidns-refused"
	CodeNetRefused       = "netns-refused"
	CodeNetShared        = "host-network-allow" // the machine's own stack was asked for
	CodeCgroupV1         = "cgroup-v1"          // the controllers are bound to the old hierarchies
	CodeCgroupMissing    = "cgroup-missing"
	CodeCgroupReadOnly   = "cgroup-readonly"
	CodeCgroupDelegation = "cgroup-not-delegated"
	CodeCgroupControl    = "cgroup-controllers-missing" // the group is this user's, but memory, pids or cpu were not handed down
	CodeCgroupOccupied   = "cgroup-occupied"            // the same, but other programs run in it, so it cannot be divided
	CodeCgroupRefused    = "cgroup-refused"             // the kernel refused a group, a limit, or the entry into it
	CodeMountOldKernel   = "userns-old-kernel"
	CodeLandlockNotBuilt = "landlock-not-built"
	CodeLandlockNotBoot  = "landlock-not-booted"
	CodeSeccompNotBuilt  = "seccomp-not-built"
	CodeSeccompArch      = "seccomp-arch-unsupported"
)

// Event is one line of the status pipe. Exactly one member is set.
type Event struct {
	Started *Started `json:"started,omitempty"`
	Failed  *Failure `json:"failed,omitempty"`
	Ended   *Ended   `json:"ended,omitempty"`
}

// Started says that the helper has become the runner (or, with CheckOnly, ended well).
type Started struct {
	PID    int    `json:"pid"`
	Report Report `json:"report"`
	Watch  Watch  `json:"watch"`
	// Warmed is set by a zygote.
	Warmed *Warmed `json:"warmed,omitempty"`
}

// Watch is what the supervisor does for a whole tree of processes.
type Watch struct {
	Subreaper bool  `json:"subreaper"` // as prctl answered: what loses its parent becomes the supervisor's child
	Memory    int64 `json:"memory"`    // above these the tree is ended; 0 is not watched
	Processes int   `json:"processes"`
	Disk      int64 `json:"disk"`
}

// What is beyond these cannot be watched for the limit of the disk, and ends the tree.
const (
	DiskDepth   = 256     // directories below each other, workspace or scratch itself left out
	DiskEntries = 1 << 20 // files, directories and links, in each of the two
)

// EndCause is why the supervisor ended an instance, or that it ended by itself.
type EndCause string

const (
	EndSelf      EndCause = "self" // the runner ended; Status or Signal say how
	EndOrdered   EndCause = "ordered"
	EndMemory    EndCause = "memory"
	EndDisk      EndCause = "disk"
	EndProcesses EndCause = "processes"
)

// By is who measured or refused what ended an instance.
const (
	ByWatch  = "watch"  // the supervisor, a few times a second
	ByCgroup = "cgroup" // the kernel, by the events of the control group
)

// Ended is the last event: everything below the supervisor is dead, or Left
// names the process ids that would not die.
type Ended struct {
	Cause  EndCause      `json:"cause"`
	By     string        `json:"by,omitempty"`     // of EndMemory and EndProcesses: one of the By constants
	Used   int64         `json:"used,omitempty"`   // what was measured, in the unit of the limit
	Limit  int64         `json:"limit,omitempty"`  // and the limit it exceeded
	Unseen string        `json:"unseen,omitempty"` // of EndDisk: why not everything could be measured
	Status int           `json:"status"`           // exit status of the runner, -1 when a signal ended it
	Signal int           `json:"signal,omitempty"`
	Killed int           `json:"killed"` // processes that had to be killed
	Left   []int         `json:"left,omitempty"`
	Took   time.Duration `json:"took_ns"` // of the sweep
}
