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

// Mode is how strictly the instance must be confined.
type Mode string

const (
	ModeOff        Mode = "off"         // hygiene, limits and the tree kill only
	ModeBestEffort Mode = "best-effort" // everything this kernel offers
	ModeRequire    Mode = "require"     // calls that no layer here can confine are refused
)

// Plan is everything that the supervisor and the helper are told. It travels
// over a pipe, because arguments and environment can be read by others.
type Plan struct {
	Token     string   `json:"token"`   // names the instance; stands in the environment of its processes
	Command   []string `json:"command"` // Command[0] is an absolute path
	Env       []string `json:"env"`
	Mode      Mode     `json:"mode"`
	Inet      bool     `json:"inet"` // internet sockets are wanted
	Workspace string   `json:"workspace"`
	Scratch   string   `json:"scratch"`
	// Home is the directory of the instance, with LockFile in it; Scratch may be
	// inside. The supervisor holds the lock while it lives and removes Home at the end.
	Home   string `json:"home"`
	Grants Grants `json:"grants"`
	Limits Limits `json:"limits"`
	// Namespace asks for a mount namespace of the instance's own, where the
	// kernel gives one to this user.
	Namespace bool `json:"namespace"`
	// CheckOnly ends the helper after its report instead of running Command.
	CheckOnly bool `json:"check_only,omitempty"`
	sabotaged
}

// Grants are paths that may be used beside workspace and scratch. A path that
// does not exist is skipped; links are followed once, when the grant is made.
type Grants struct {
	Execute []string `json:"execute"` // read and execute
	Read    []string `json:"read"`
	Devices []string `json:"devices"` // read and write, never a directory
}

// Limits of one instance; zero means none.
type Limits struct {
	Memory    int64 `json:"memory"`    // bytes, per process by rlimit and of the tree by watching
	Processes int   `json:"processes"` // threads count too
	CPUs      int   `json:"cpus"`
	OpenFiles int   `json:"open_files"`
	FileSize  int64 `json:"file_size"`
	Disk      int64 `json:"disk"` // bytes, of workspace and scratch together
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
	StageSession   = "session"
	StageNamespace = "namespace"
	StageFiles     = "descriptors"
	StageLimits    = "limits"
	StagePrivs     = "privileges"
	StageLandlock  = "landlock"
	StageSeccomp   = "seccomp"
	StageReport    = "report"
	StageExec      = "exec"
)

// Report is what the helper did, written after the last layer was applied and
// before it became the runner. Values are what the kernel accepted or answered.
type Report struct {
	Kernel     string            `json:"kernel"`
	UID        int               `json:"uid"`
	Namespace  Layer             `json:"namespace"`
	PrivateShm bool              `json:"private_shm"` // /dev/shm is the instance's own
	SharedShm  bool              `json:"shared_shm"`  // /dev/shm of the machine is granted
	Limits     map[string]uint64 `json:"limits"`      // rlimits by name, as getrlimit answered after they were set
	CPUs       int               `json:"cpus"`        // processors it may use
	Processors []int             `json:"processors"`  // their numbers, as sched_getaffinity answered last
	Narrowed   bool              `json:"narrowed"`    // they are fewer than brig may use
	NoNewPrivs bool              `json:"no_new_privs"`
	CapEff     string            `json:"cap_eff"`   // hex, as capget answered after they were dropped
	Kept       []int             `json:"kept"`      // descriptors that stay open when the runner starts
	Closed     int               `json:"closed"`    // descriptors that are closed by that
	Variables  []string          `json:"variables"` // names of the environment that the runner is started with
	Landlock   Landlock          `json:"landlock"`
	Seccomp    Seccomp           `json:"seccomp"`
}

// Layer says whether something was applied and, where not, why. Code is one of
// the Code constants; Errno the name of what the kernel answered.
type Layer struct {
	Applied bool   `json:"applied"`
	Code    string `json:"code,omitempty"`
	Errno   string `json:"errno,omitempty"`
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
	CodeUsernsAppArmor   = "userns-apparmor"
	CodeUsernsSysctl     = "userns-sysctl"
	CodeUsernsRefused    = "userns-refused"
	CodeMountRefused     = "userns-mount-refused"
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

// Ended is the last event: everything below the supervisor is dead, or Left
// names the process ids that would not die.
type Ended struct {
	Cause  EndCause      `json:"cause"`
	Used   int64         `json:"used,omitempty"`   // what was measured, in the unit of the limit
	Limit  int64         `json:"limit,omitempty"`  // and the limit it exceeded
	Unseen string        `json:"unseen,omitempty"` // of EndDisk: why not everything could be measured
	Status int           `json:"status"`           // exit status of the runner, -1 when a signal ended it
	Signal int           `json:"signal,omitempty"`
	Killed int           `json:"killed"` // processes that had to be killed
	Left   []int         `json:"left,omitempty"`
	Took   time.Duration `json:"took_ns"` // of the sweep
}
