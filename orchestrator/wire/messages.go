package wire

import (
	"encoding/json"
	"time"
)

const (
	// Version of the protocol. A runner with another version is refused.
	Version = 2
	// MaxPayload is the largest payload of one frame, in bytes.
	MaxPayload = 64 << 10
	// InitialCredit is what may be sent on a new stream before the first grant, in bytes.
	InitialCredit = 256 << 10
	// HelloTimeout is how long a runner waits for the first message.
	HelloTimeout = 10 * time.Second
	// MaxCode is the largest source text of one run, in bytes.
	MaxCode = 16 << 20
	// MaxBundle bounds the sum of the parts of one display, in bytes.
	MaxBundle = 32 << 20
	// MaxInline is the largest part of a display that travels inside its control message, in bytes.
	MaxInline = 4 << 10
)

// Streams with a fixed meaning.
const (
	StreamControl uint32 = 0
	StreamStdout  uint32 = 1
	StreamStderr  uint32 = 2
)

// RunID names one run within an instance: 1 to 64 characters of [A-Za-z0-9_-].
// brig chooses it and never uses one twice.
type RunID string

// Hello opens the conversation of an instance, before any session has it. What
// differs between sessions comes later, with OpBind, so that an instance can be
// started ahead; nothing of either stands in the environment of the instance.
type Hello struct {
	Version   int    `json:"version"`
	Workspace string `json:"workspace"` // absolute path inside the instance
	Scratch   string `json:"scratch"`   // absolute path inside the instance, writable, gone with it
	Bounds    Bounds `json:"bounds"`
	// Lease lets the instance outlive its connection: the runner ends when it has not
	// heard anything from brig for so long, by its own monotonic clock, and an end of
	// its input alone does not end it. Zero: it ends with its input.
	Lease time.Duration `json:"lease_ns,omitempty"`
	// Resume is the secret by which a later connection takes the conversation up, 64
	// hex digits, see NewSecret; it comes with a Lease and is empty without one. See
	// Resume. Where Ready.Resumable is false, the end of the input is the end.
	Resume string `json:"resume,omitempty"`
	// Silence ends the runner when it has not had a single frame for so long, by its
	// own monotonic clock, although its input is open: a connection that stands still
	// has no end. Zero: never. Whoever sets it has to ping.
	Silence time.Duration `json:"silence_ns,omitempty"`
}

// Bounds are the output bounds of one run, in bytes.
type Bounds struct {
	Kept    int64 `json:"kept"`    // per stream: half as head, half as tail
	Logged  int64 `json:"logged"`  // of the full log in the workspace
	Display int64 `json:"display"` // of all displays of one run together
}

// Ready is the runner's answer to Hello: what it is and what it saw from inside.
type Ready struct {
	Version        int      `json:"version"`
	Runner         string   `json:"runner"` // SHA-256 of the runner's source, hex
	Python         string   `json:"python"` // such as 3.11.7
	Implementation string   `json:"implementation"`
	Executable     string   `json:"executable"`
	Packages       []string `json:"packages,omitempty"` // of the data stack, importable, not imported
	// Resumable: what was asked for with a Lease can be kept. It cannot where the
	// runner has no process namespace of its own, could be read by user code, or its
	// Python lacks _ctypes.
	Resumable bool     `json:"resumable,omitempty"`
	Observed  Observed `json:"observed"`
}

// Observed is what the runner read back about its own confinement before any
// user code ran. Values are copied from the kernel's own text.
type Observed struct {
	PID        int               `json:"pid"`
	UID        int               `json:"uid"`
	GID        int               `json:"gid"`
	Dumpable   int               `json:"dumpable"` // of the supervisor; 0 is wanted, -1 unknown
	Status     map[string]string `json:"status"`   // fields of /proc/self/status: CapInh CapPrm CapEff CapBnd CapAmb NoNewPrivs Seccomp Seccomp_filters NSpid
	UIDMap     string            `json:"uid_map,omitempty"`
	Mounts     []Mount           `json:"mounts,omitempty"` // of /, workspace, scratch, /tmp, /dev/shm, /proc/sys
	Interfaces []string          `json:"interfaces"`       // network interfaces, sorted
	Rlimits    map[string]Rlimit `json:"rlimits"`          // by lower-case name without RLIMIT_
	Cgroup     map[string]string `json:"cgroup,omitempty"` // file name → trimmed content, v1 or v2
	// CgroupPath is where the runner is in the hierarchy of version 2, as it sees it.
	CgroupPath string `json:"cgroup_path,omitempty"`
	// Namespaces are the kernel's names of those that the runner is in, by kind:
	// ipc, mnt, net, pid, user. The same name outside means the same namespace.
	Namespaces map[string]string `json:"namespaces,omitempty"`
	Kernel     string            `json:"kernel,omitempty"`   // /proc/version
	AppArmor   string            `json:"apparmor,omitempty"` // /proc/self/attr/current: an AppArmor profile or an SELinux label
	Environ    []string          `json:"environ,omitempty"`  // names of the variables that the runner was started with, sorted
	Devices    []string          `json:"devices,omitempty"`  // device files directly in /dev, sorted
	// Attempts maps an operation really attempted to "ok" or the errno's name, or
	// "unavailable" where this Python cannot try it: write_root, write_workspace,
	// write_scratch, exec_workspace, unshare_user, socket_inet, bind_loopback
	// (a datagram socket of one's own), socket_unix,
	// socket_netlink, socket_vsock, io_uring_setup, ptrace_traceme, keyctl, mount,
	// kill_parent (signal 0), chmod_root, list_outside (the directory that scratch is in shows
	// more than workspace and scratch), stat_outside (a file of brig's beside scratch exists),
	// read_masked and read_cgroup_path (ENODATA: there was nothing to read).
	Attempts map[string]string `json:"attempts"`
	Bounds   Bounds            `json:"bounds,omitzero"` // of output, as the runner will hold them
}

// Mount is one line of mountinfo, shortened.
type Mount struct {
	Path    string `json:"path"`
	FSType  string `json:"fstype"`
	Options string `json:"options"` // mount options and super options, comma separated
}

// Rlimit is a soft and a hard limit; -1 means unlimited.
type Rlimit struct {
	Soft int64 `json:"soft"`
	Hard int64 `json:"hard"`
}

// Run asks for one execution of source text.
type Run struct {
	ID     RunID  `json:"id"`
	Source []byte `json:"-"` // at most MaxCode; sent on a stream, raw: encoding is the interpreter's business
	// Filename is what tracebacks and sys.argv[0] show; empty means <cell N>. A run
	// with one finds __file__ set to the workspace joined with its last part,
	// whether the file is there or not; a run without has no __file__.
	Filename string   `json:"filename,omitempty"`
	Argv     []string `json:"argv,omitempty"` // sys.argv[1:]
	// Once makes the run a whole program: after the last line the interpreter
	// ends as Python ends (threads joined, atexit called, files flushed) and the
	// exit status is the process's own. The instance then takes no further run.
	Once bool `json:"once,omitempty"`
	// Limit has the runner kill the run by force when it has taken so long, by the
	// runner's own monotonic clock from the start of the code; Exit.Hard says so. It
	// is for a brig that cannot be heard any more, and is longer than what brig itself
	// allows. Zero: none.
	Limit time.Duration `json:"limit_ns,omitempty"`
}

// Outcome says how a run ended, as far as the runner knows.
type Outcome string

const (
	OutcomeOK          Outcome = "ok"
	OutcomeException   Outcome = "exception"   // an uncaught exception, in Exit.Exception
	OutcomeExit        Outcome = "exit"        // the program chose Exit.Status
	OutcomeSignal      Outcome = "signal"      // the interpreter died of Exit.Signal
	OutcomeInterrupted Outcome = "interrupted" // KeyboardInterrupt after a soft interrupt
)

// Exceeded names a bound that ends a run which does not keep it.
type Exceeded string

const (
	ExceededDisplays Exceeded = "displays" // more of them than MaxDisplays, or more bytes than Bounds.Display
	ExceededTime     Exceeded = "time"     // Run.Limit
)

// State says what became of the interpreter's variables.
type State string

const (
	StateKept  State = "kept"
	StateLost  State = "lost"  // the interpreter was replaced by a fresh one
	StateEnded State = "ended" // Run.Once: there is no interpreter any more
)

// Exit is the runner's account of a finished run.
type Exit struct {
	Run       RunID         `json:"run"`
	Outcome   Outcome       `json:"outcome"`
	Status    int           `json:"status"` // exit status for OutcomeExit, 0 to 255
	Signal    int           `json:"signal,omitempty"`
	Exception *Exception    `json:"exception,omitempty"`
	Stdout    Count         `json:"stdout"`
	Stderr    Count         `json:"stderr"`
	Log       *Log          `json:"log,omitempty"` // present when output was dropped
	Displays  int           `json:"displays"`
	Elapsed   time.Duration `json:"elapsed_ns"`
	OOMKills  int           `json:"oom_kills"` // of this run, from the cgroup's own counter
	// MemoryHeld is a limit the run met without being killed: "MemoryError" was raised.
	MemoryHeld bool `json:"memory_error,omitempty"`
	Hard       bool `json:"hard,omitempty"` // the supervisor killed it: a hard interrupt, or Run.Limit
	// Exceeded is the bound that the supervisor killed the run for; empty: none.
	Exceeded Exceeded `json:"exceeded,omitempty"`
	Swept    int      `json:"swept,omitempty"`
	State    State    `json:"state"`
}

// Count is the exact account of one output stream, in bytes. Total = Kept + Dropped.
type Count struct {
	Total   int64 `json:"total"`
	Kept    int64 `json:"kept"`
	Dropped int64 `json:"dropped"`
	// Incomplete says that the end of the run was not seen: the account is of what
	// arrived until then, and more may have been printed. A runner never sets it.
	Incomplete bool `json:"incomplete,omitempty"`
}

// Log names the workspace file with the full output of a run.
type Log struct {
	Path    string `json:"path"` // relative to the workspace
	Bytes   int64  `json:"bytes"`
	Dropped int64  `json:"dropped"`
	// Error is why the file holds less than its bound would allow: an errno's name and its text.
	Error string `json:"error,omitempty"`
}

// Exception is an uncaught exception. Every string is bounded; Truncated says that one was cut.
type Exception struct {
	Name      string  `json:"name"`
	Message   string  `json:"message"`
	Frames    []Frame `json:"frames,omitempty"` // outermost first, the runner's own frames left out
	Traceback string  `json:"traceback"`        // as Python prints it, without the runner's own frames
	Truncated bool    `json:"truncated,omitempty"`
}

// Frame is one line of a traceback.
type Frame struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Name string `json:"name"`
	Text string `json:"text,omitempty"`
}

// Op names what a Control asks for.
type Op string

const (
	OpPing       Op = "ping"
	OpVariables  Op = "variables"  // needs the interpreter; body VariablesBody
	OpReset      Op = "reset"      // needs the interpreter; fresh namespace, same process
	OpCheckpoint Op = "checkpoint" // needs the interpreter; out: opaque bytes, body CheckpointBody
	OpRestore    Op = "restore"    // needs the interpreter; in: bytes of OpCheckpoint
	OpPut        Op = "put"        // in: file content; args Path, Mode
	OpGet        Op = "get"        // out: file content; args Path
	OpList       Op = "list"       // args Path, Limit, After; body ListBody
	OpRemove     Op = "remove"     // args Path
	OpUsage      Op = "usage"      // body UsageBody
	OpInterrupt  Op = "interrupt"  // args Run, Level, Sweep; error code "not-running"
	// OpBind gives the instance to a session; args Timezone, Locale. It comes before
	// the first run; error code "invalid" after it. Answered at once: the interpreter
	// takes it up before whatever is asked next.
	OpBind Op = "bind"
	// OpTables says which datasets the session has; in: a JSON array of Table, at most
	// MaxTables of them and MaxTablesBytes. It replaces what was said before. Answered at once: each
	// interpreter of the instance takes it up before whatever is asked next.
	OpTables Op = "tables"
)

const (
	// MaxTables is the largest number of datasets of a session.
	MaxTables = 256
	// MaxTablesBytes bounds the input of OpTables.
	MaxTablesBytes = 1 << 20
)

// Table is a file of the workspace that code finds as tables[Name], read when it is
// first asked for.
type Table struct {
	Name   string `json:"name"`
	Path   string `json:"path"`   // relative to the workspace, slash separated
	Format string `json:"format"` // csv, tsv, json, jsonl, parquet, feather, xlsx, sqlite
	Table  string `json:"table,omitempty"`
	Active bool   `json:"active,omitempty"` // it is df; at most one is
	// Version tells one registration of a name from another: with another one the
	// interpreter forgets what it has read.
	Version int64 `json:"version,omitempty"`
}

// Level is how firmly a run is interrupted.
type Level string

const (
	Soft Level = "soft" // KeyboardInterrupt in the main thread
	Hard Level = "hard" // SIGKILL to the interpreter and everything it started; variables are lost
)

// Control is one question beside or between runs.
type Control struct {
	Op   Op          `json:"op"`
	Args ControlArgs `json:"args"`
}

// ControlArgs are the arguments of all ops; each op documents which it reads.
type ControlArgs struct {
	Path  string `json:"path,omitempty"` // relative to the workspace, slash separated
	Mode  uint32 `json:"mode,omitempty"` // permission bits, 0 means 0600
	Run   RunID  `json:"run,omitempty"`
	Level Level  `json:"level,omitempty"`
	Sweep bool   `json:"sweep,omitempty"` // also kill every process started since that run began
	Limit int    `json:"limit,omitempty"` // entries, 0 means 200
	// After is for lists that do not fit into one: only entries whose path comes after it.
	After string `json:"after,omitempty"`
	// Timezone is an IANA name, empty means UTC; Locale is such as de_DE.UTF-8, empty
	// means C.UTF-8.
	Timezone string `json:"timezone,omitempty"`
	Locale   string `json:"locale,omitempty"`
}

// Reply is the runner's answer to a Control.
type Reply struct {
	Body json.RawMessage `json:"body,omitempty"`
}

// VariablesBody answers OpVariables.
type VariablesBody struct {
	Variables []Variable `json:"variables"`
	Omitted   int        `json:"omitted"`
}

// Variable describes one name of the user's namespace; user code's own methods are never called for it.
type Variable struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Shape string `json:"shape,omitempty"` // such as "(3, 4)" for arrays and frames, "5" for sized builtins
	Bytes int64  `json:"bytes,omitempty"` // shallow size, or nbytes
	Repr  string `json:"repr,omitempty"`  // builtin scalars and strings only, at most 80 characters
}

// ListBody answers OpList, sorted by path.
type ListBody struct {
	Entries []Entry `json:"entries"`
	Omitted int     `json:"omitted"`
}

// Entry is one file of the workspace. Special files are listed with Kind "other".
type Entry struct {
	Path    string `json:"path"`
	Kind    string `json:"kind"` // file, dir, link, other
	Size    int64  `json:"size"`
	ModUnix int64  `json:"mtime_ns"`
	// Changed is when anything about it changed, which code cannot set back; 0: not known.
	Changed int64  `json:"ctime_ns,omitempty"`
	Mode    uint32 `json:"mode,omitempty"` // permission bits; 0: not known
	// Closed: a directory that could not be read; what is in it is not in the list.
	Closed bool `json:"closed,omitempty"`
}

// CheckpointBody answers OpCheckpoint.
type CheckpointBody struct {
	Saved   []string          `json:"saved"`
	Skipped map[string]string `json:"skipped"` // name → why
}

// UsageBody answers OpUsage for the whole instance.
type UsageBody struct {
	Processes int   `json:"processes"`
	RSS       int64 `json:"rss_bytes"`
	CPU       int64 `json:"cpu_ns"`
	OOMKills  int   `json:"oom_kills"`
}

// EventKind tells the kinds of Event apart.
type EventKind uint8

const (
	EventStdout  EventKind = iota + 1 // Data
	EventStderr                       // Data
	EventGap                          // Stream, Dropped, Slow
	EventDisplay                      // Display
)

// Event is one thing that happened during a run, in the order of the runner.
type Event struct {
	Kind    EventKind
	Run     RunID
	Data    []byte // raw bytes; valid only during the call of emit
	Late    bool   // it arrived after the run it belongs to had ended
	Stream  uint32 // EventGap: StreamStdout or StreamStderr
	Dropped int64  // EventGap: bytes that are missing here
	Slow    bool   // EventGap: dropped by brig, because emit was too slow; otherwise by the output bound
	Display *Display
}

// Display is a MIME bundle: the same thing in several representations.
type Display struct {
	Role string // "result" (the value of the last expression), "display", "figure"
	Data []Part
}

// Part is one representation. Text kinds are UTF-8.
type Part struct {
	MIME string
	Data []byte
}
