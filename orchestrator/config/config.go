package config

import (
	"time"

	"brig/orchestrator/sandbox"
)

// None is the value of execution.fallback that refuses to step down.
const None sandbox.Kind = "none"

// Tier names a prepared set of packages in the docker backend's image.
type Tier string

// Tiers of the image.
const (
	TierCore     Tier = "core"
	TierStandard Tier = "standard"
	TierFull     Tier = "full"
)

// Profile says who answers an approval.
type Profile string

// Profiles of permission.
const (
	AskAlways   Profile = "ask-always"
	AutoApprove Profile = "auto-approve"
	Custom      Profile = "custom"
)

// Guard says how closely source is checked before it runs.
type Guard string

// Levels of the guard.
const (
	Strict  Guard = "strict"
	Minimal Guard = "minimal"
)

// Config is everything a person can set. It is a comparable value that nothing
// changes after Load.
type Config struct {
	Execution    Execution
	Orchestrator Orchestrator
	Host         Host
	Docker       Docker
	Sandbox      Sandbox
	Workspace    Workspace
	Limits       Limits
	Pool         Pool
	Permissions  Permissions
	Guard        Guards
	Server       Server
	Records      Records
	Audit        Audit
}

// Execution chooses the backend.
type Execution struct {
	Backend  sandbox.Kind
	Fallback sandbox.Kind // Host or None
}

// Orchestrator is about the life of sessions.
type Orchestrator struct {
	KeepSessions bool
}

// Host is about the host backend.
type Host struct {
	Sandbox sandbox.Mode
	Network sandbox.Network
	Python  string // empty: found on PATH
}

// Docker is about the docker backend.
type Docker struct {
	Endpoint string // empty: as the docker command resolves it
	Context  string
	Runtime  string
	Tier     Tier
	Image    string // of the user's own; empty: that of the tier
}

// Sandbox is about the WASM backend.
type Sandbox struct {
	Enabled      bool
	WASMPath     string
	AutoDownload bool
	MemoryMiB    int
	CPUSeconds   int // 0: unset
}

// Workspace is about running code in a session's directory.
type Workspace struct {
	CodeExec    bool
	ExecTimeout time.Duration
}

// Limits bound a session. A zero stands for the default, never for unlimited.
type Limits struct {
	TimeoutGrace   time.Duration
	InterruptGrace time.Duration
	Memory         int64
	Processes      int
	MilliCPU       int
	OpenFiles      int
	FileSize       int64
	Workspace      int64
	OutputKept     int64
	OutputLogged   int64
	Sessions       int
	Idle           time.Duration
	MaxTimeout     time.Duration
}

// Pool is how many warm instances are kept ready.
type Pool struct{ Docker, Host, WASM int }

// Permissions is about approvals.
type Permissions struct {
	Profile        Profile
	ConsentTimeout time.Duration
}

// Guards is the level of the guard on each backend.
type Guards struct{ Host, Docker, WASM Guard }

// Server is about the local HTTP service.
type Server struct{ Listen string }

// Records is about what is kept of runs that have ended.
type Records struct {
	Runs int           // of one session
	Size int64         // of sources and outputs of all runs
	Age  time.Duration // after a run's end
}

// Audit is about the audit log.
type Audit struct {
	Code bool  // it holds the source of every run, not only its hash and size
	Size int64 // of the log: what is older goes
}

// Default is the configuration of a machine where nothing is configured.
func Default() Config {
	l := sandbox.DefaultLimits()
	return Config{
		Execution:    Execution{Backend: sandbox.Docker, Fallback: sandbox.Host},
		Orchestrator: Orchestrator{KeepSessions: true},
		Host:         Host{Sandbox: sandbox.ModeBestEffort, Network: sandbox.NetworkDeny},
		Docker:       Docker{Runtime: "auto", Tier: TierStandard},
		Sandbox:      Sandbox{Enabled: true, AutoDownload: true, MemoryMiB: 512},
		Workspace:    Workspace{CodeExec: true, ExecTimeout: 30 * time.Second},
		Limits: Limits{
			TimeoutGrace: 200 * time.Millisecond, InterruptGrace: 2 * time.Second,
			Memory: l.Memory, Processes: l.Processes, MilliCPU: l.MilliCPU, OpenFiles: l.OpenFiles,
			FileSize: l.FileSize, Workspace: l.Workspace, OutputKept: l.OutputKept, OutputLogged: l.OutputLogged,
			Sessions: 32, Idle: 30 * time.Minute, MaxTimeout: 10 * time.Minute,
		},
		Pool:        Pool{Docker: 1, Host: 1, WASM: 1},
		Permissions: Permissions{Profile: AskAlways, ConsentTimeout: 120 * time.Second},
		Guard:       Guards{Host: Strict, Docker: Minimal, WASM: Minimal},
		Server:      Server{Listen: "127.0.0.1:7411"},
		Records:     Records{Runs: 1000, Size: 512 << 20, Age: 30 * 24 * time.Hour},
		Audit:       Audit{Size: 512 << 20},
	}
}

// Validate checks every value and every rule between values. Its error is an
// *Error that lists all problems.
func (c Config) Validate() error {
	var problems []Problem
	for _, r := range table() {
		if f := r.check(c); f != nil {
			problems = append(problems, r.problem("", f))
		}
	}
	return asError(append(problems, cross(c, nil)...))
}

// baseImage is the choice of an image in the words of sandbox.Base.
func (d Docker) baseImage() string {
	if d.Image != "" {
		return "image:" + d.Image
	}
	return string(d.Tier)
}

// Base is BaseFor the configured backend.
func (c Config) Base() sandbox.Base { return c.BaseFor(c.Execution.Backend) }

// BaseFor is what an instance of that backend is prepared with. What a person set
// for one backend never widens another: host.network opens nothing in a container.
// What is not set is the strictest there is.
func (c Config) BaseFor(kind sandbox.Kind) sandbox.Base {
	b := sandbox.Base{
		Network: sandbox.NetworkDeny,
		Mode:    c.Host.Sandbox, // an input of the resolution whatever the backend is
		Image:   c.Docker.baseImage(),
		Runtime: c.Docker.Runtime,
		Python:  c.Host.Python,
		Limits: sandbox.Limits{
			Memory: c.Limits.Memory, Processes: c.Limits.Processes, MilliCPU: c.Limits.MilliCPU,
			OpenFiles: c.Limits.OpenFiles, FileSize: c.Limits.FileSize, Workspace: c.Limits.Workspace,
			OutputKept: c.Limits.OutputKept, OutputLogged: c.Limits.OutputLogged,
		}.WithDefaults(),
	}
	if b.Mode == "" {
		b.Mode = sandbox.ModeRequire
	}
	switch kind {
	case sandbox.Host:
		if c.Host.Network != "" {
			b.Network = c.Host.Network
		}
	case sandbox.WASM, sandbox.InProcess:
		if c.Sandbox.MemoryMiB > 0 {
			b.Limits.Memory = int64(c.Sandbox.MemoryMiB) << 20
		}
	}
	return b
}
