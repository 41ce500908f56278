package sandbox

import (
	"time"

	"brig/orchestrator/wire"
)

// Kind names a backend.
type Kind string

const (
	Docker    Kind = "docker"
	Host      Kind = "host"
	WASM      Kind = "wasm"
	InProcess Kind = "inprocess"
	// Memory is the working fake of sandboxtest; no configuration can name it.
	Memory Kind = "memory"
)

// InstanceID names an instance: "<process token>-<number>", where the token is the
// one of the brig process that made it. At most 64 characters of [a-z0-9-].
type InstanceID string

// Network is what an instance may reach.
type Network string

const (
	NetworkDeny     Network = "deny"     // nothing; loopback only where it cannot be closed or is private
	NetworkLoopback Network = "loopback" // a private loopback of the instance's own
	NetworkAllow    Network = "allow"
)

// Mode is how strictly the host sandbox is required.
type Mode string

const (
	ModeOff        Mode = "off"
	ModeBestEffort Mode = "best-effort"
	ModeRequire    Mode = "require"
)

// Base is everything about an instance that is the same for every session that
// could take it. It is comparable: the pool's key.
type Base struct {
	Network Network
	Mode    Mode   // host only
	Image   string // docker only: a tier (core, standard, full), or "image:" and the reference of the user's own image
	Runtime string // docker only: auto, runc, runsc, kata…
	Python  string // host only: interpreter, empty means found on PATH
	// Lease lets an instance outlive this process, so that a later one adopts it:
	// without word from any brig for so long it ends itself. Zero: it ends with the
	// process that made it. Only where the backend is an Adopter.
	Lease  time.Duration
	Limits Limits
}

// Limits of one instance. Zero means the default of DefaultLimits, never unlimited.
type Limits struct {
	Memory       int64 // bytes, of the whole instance where the backend can; swap not on top
	Processes    int   // processes and threads
	MilliCPU     int   // thousandths of a core
	OpenFiles    int   // per process
	FileSize     int64 // bytes, of one file
	Workspace    int64 // bytes, of all files of the workspace
	OutputKept   int64 // bytes, per stream of a run
	OutputLogged int64 // bytes, of the log file of a run
}

// DefaultLimits are the documented defaults.
func DefaultLimits() Limits {
	return Limits{
		Memory: 1 << 30, Processes: 256, MilliCPU: 2000, OpenFiles: 1024, FileSize: 1 << 30,
		Workspace: 2 << 30, OutputKept: 1 << 20, OutputLogged: 64 << 20,
	}
}

// WorkspaceInMemory is what a workspace holds that is kept in the memory of the
// instance, because the engine sees no directory of this machine: every byte of it
// counts against Memory as well.
func (l Limits) WorkspaceInMemory() int64 { return min(l.Workspace, l.Memory/4) }

// WithDefaults replaces every zero by its default.
func (l Limits) WithDefaults() Limits {
	d := DefaultLimits()
	if l.Memory == 0 {
		l.Memory = d.Memory
	}
	if l.Processes == 0 {
		l.Processes = d.Processes
	}
	if l.MilliCPU == 0 {
		l.MilliCPU = d.MilliCPU
	}
	if l.OpenFiles == 0 {
		l.OpenFiles = d.OpenFiles
	}
	if l.FileSize == 0 {
		l.FileSize = d.FileSize
	}
	if l.Workspace == 0 {
		l.Workspace = d.Workspace
	}
	if l.OutputKept == 0 {
		l.OutputKept = d.OutputKept
	}
	if l.OutputLogged == 0 {
		l.OutputLogged = d.OutputLogged
	}
	return l
}

// Bounds are the output bounds in the runner's terms.
func (l Limits) Bounds() wire.Bounds {
	return wire.Bounds{Kept: l.OutputKept, Logged: l.OutputLogged, Display: wire.MaxBundle}
}

// Claim is what a session brings to a prepared instance.
type Claim struct {
	ID        InstanceID // chosen by the orchestrator
	Session   string
	Workspace string // host directory; ErrCold unless the instance was prepared with it
	Timezone  string // IANA name, empty means UTC
	Locale    string // such as de_DE.UTF-8, empty means C.UTF-8
}

// Facts say which endpoint or interpreter a backend took and why.
type Facts struct {
	Backend  Kind
	Endpoint string            // unix:///var/run/docker.sock, /usr/bin/python3
	Source   string            // why that one: "DOCKER_HOST", "context colima", "found on PATH"
	Version  string            // of the engine or the interpreter
	Details  map[string]string // for doctor: API version, operating system…
	Warnings []string          // what an engine says is wrong with itself, in its own words, or brig of a backend
}
