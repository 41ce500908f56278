package config

import (
	"slices"
	"strings"
	"time"

	"brig/orchestrator/sandbox"
)

// row is one key. doc says what it is for, in sentences; unused marks a key whose
// feature does not exist yet: it is read and checked, and `config show` says so.
type row struct {
	name   string
	alias  string // a variable that users know, beside BRIG_…
	unused bool
	doc    string
	value
}

// table is every key in the order in which they are shown.
func table() []row {
	return slices.Concat(containment(), limits(), services(), records())
}

// promisedByHost is what the documentation of host.sandbox says that it requires.
const promisedByHost = "fs-write, fs-read, net-outbound (unless host.network is allow), unix-sockets, no-new-privileges, " +
	"syscall-filter, signals, ptrace, inherited-fds, environment and tree-kill"

func containment() []row {
	return []row{
		{"execution.backend", "EXECUTION_BACKEND", false, "Which backend contains the code. wasm never steps down; inprocess is for development only.", choice[sandbox.Kind]{
			at:    func(c *Config) *sandbox.Kind { return &c.Execution.Backend },
			words: []sandbox.Kind{sandbox.Docker, sandbox.Host, sandbox.WASM, sandbox.InProcess},
		}},
		{"execution.fallback", "", false, "What runs code when no container engine answers or its image cannot be made. With none, nothing runs then. Settings that ask an engine for something that it does not have are refused, whatever this says.", choice[sandbox.Kind]{
			at: func(c *Config) *sandbox.Kind { return &c.Execution.Fallback }, words: []sandbox.Kind{sandbox.Host, None},
		}},
		{"orchestrator.keep_sessions", "", false, "Whether sessions outlive a brig that ends or crashes. With true a container waits for up to 60 seconds for a brig that takes its session over, variables included; session files wait as long as it takes. A session that is closed ends at once either way. With false everything of a session ends with the brig that opened it.", truth{
			func(c *Config) *bool { return &c.Orchestrator.KeepSessions },
		}},
		{"host.sandbox", "HOST_SANDBOX", false, "How strictly the host sandbox is required. require: nothing runs unless every layer that the host sandbox promises is enforced: " + promisedByHost + ", and the self-test has seen since the machine started that each of them holds; brig run tests first where it has not run for the same limits, network and Python. Not among them are memory-limit, disk-limit and, as root, process-limit: without a control group brig watches there, and ends what exceeds the limit. best-effort: as much as the system can, every gap is announced. off: code runs not sandboxed, as your user, with nothing between it and your files; only hygiene, limits and the end of all its processes remain. See docs/host.md.", choice[sandbox.Mode]{
			at:    func(c *Config) *sandbox.Mode { return &c.Host.Sandbox },
			words: []sandbox.Mode{sandbox.ModeOff, sandbox.ModeBestEffort, sandbox.ModeRequire},
		}},
		{"host.network", "HOST_SANDBOX_NETWORK", false, "What code in the host sandbox may reach. deny: nothing. loopback: a loopback of the session's own, where its own servers and clients meet and nothing of this machine listens; where there can be none, code is refused. allow: everything this machine reaches, which every result then says. Containers are not affected.", choice[sandbox.Network]{
			at:    func(c *Config) *sandbox.Network { return &c.Host.Network },
			words: []sandbox.Network{sandbox.NetworkDeny, sandbox.NetworkLoopback, sandbox.NetworkAllow},
		}},
		{"host.python", "", false, "The Python interpreter of the host sandbox.", text{
			func(c *Config) *string { return &c.Host.Python }, "an absolute path or the name of a program on PATH", "found on PATH", validProgram,
		}},
		{"docker.endpoint", "", false, "Where the container engine listens. Not together with docker.context.", text{
			func(c *Config) *string { return &c.Docker.Endpoint }, "unix://, npipe://, tcp://, http://, https:// or ssh:// and an address", "as the docker command finds it", validEndpoint,
		}},
		{"docker.context", "", false, "Which context of the docker command names the engine.", text{
			func(c *Config) *string { return &c.Docker.Context }, "the name of a docker context", "as the docker command finds it", validContext,
		}},
		{"docker.runtime", "", false, "The engine's runtime for containers. auto: the strongest that the engine offers, Kata before gVisor before its default; the posture says which that is.", text{
			func(c *Config) *string { return &c.Docker.Runtime }, "auto, or the name of a runtime that the engine knows, such as runc, runsc or kata", "", validName,
		}},
		{"docker.tier", "", false, "The packages in the image. core: the standard library. standard: numpy, pandas, matplotlib, openpyxl and pyarrow too. full: also scipy, scikit-learn, statsmodels, seaborn, sympy, polars, duckdb, sqlalchemy, lxml and others; see docs/images.md.", choice[Tier]{
			at: func(c *Config) *Tier { return &c.Docker.Tier }, words: []Tier{TierCore, TierStandard, TierFull},
		}},
		{"docker.image", "", false, "An image of your own instead of a tier's, with Python 3.8 or later in it. brig builds its runner on top, and again when the reference means another image; it never pulls.", text{
			func(c *Config) *string { return &c.Docker.Image }, "the reference of an image, such as registry.example/team/analysis:2", "the image of docker.tier", validReference,
		}},
		{"sandbox.enabled", "", true, "Whether the WASM backend may be used at all.", truth{
			func(c *Config) *bool { return &c.Sandbox.Enabled },
		}},
		{"sandbox.wasm_path", "", true, "The WASM build of Python, for machines without a network.", text{
			func(c *Config) *string { return &c.Sandbox.WASMPath }, "an absolute path", "downloaded when it is needed", validPath,
		}},
		{"sandbox.auto_download", "", true, "Whether the WASM build of Python may be downloaded.", truth{
			func(c *Config) *bool { return &c.Sandbox.AutoDownload },
		}},
		{"sandbox.mem_mb", "", true, "Memory of a WASM guest, in MiB.", count{
			func(c *Config) *int { return &c.Sandbox.MemoryMiB }, 64, 4096, false,
		}},
		{"sandbox.cpu_seconds", "", true, "Processor time of one run in a WASM guest.", count{
			func(c *Config) *int { return &c.Sandbox.CPUSeconds }, 1, 86400, true,
		}},
		{"workspace.code_exec", "", false, "Whether code runs at all. With false every run is refused, on every backend.", truth{
			func(c *Config) *bool { return &c.Workspace.CodeExec },
		}},
		{"workspace.exec_timeout", "", false, "Wall clock of one run that asks for nothing else. At most limits.max_timeout.", duration{
			func(c *Config) *time.Duration { return &c.Workspace.ExecTimeout }, 100 * time.Millisecond, 24 * time.Hour,
		}},
	}
}

func limits() []row {
	return []row{
		{"limits.timeout_grace", "", false, "How long a run that met its time limit may clean up before it is killed.", duration{
			func(c *Config) *time.Duration { return &c.Limits.TimeoutGrace }, 10 * time.Millisecond, 10 * time.Second,
		}},
		{"limits.interrupt_grace", "", false, "How long an interrupted run may clean up before it is killed.", duration{
			func(c *Config) *time.Duration { return &c.Limits.InterruptGrace }, 100 * time.Millisecond, time.Minute,
		}},
		{"limits.max_timeout", "", false, "The longest time limit that a request may ask for.", duration{
			func(c *Config) *time.Duration { return &c.Limits.MaxTimeout }, time.Second, 24 * time.Hour,
		}},
		{"limits.memory", "", false, "Memory of a session, with swap.", bytesize{
			func(c *Config) *int64 { return &c.Limits.Memory }, 64 << 20, 1 << 40,
		}},
		{"limits.processes", "", false, "Processes and threads of a session.", count{
			func(c *Config) *int { return &c.Limits.Processes }, 8, 32768, false,
		}},
		{"limits.cpus", "", false, "Processor cores of a session.", cores{
			func(c *Config) *int { return &c.Limits.MilliCPU }, 50, 1024_000,
		}},
		{"limits.open_files", "", false, "Open files of each process.", count{
			func(c *Config) *int { return &c.Limits.OpenFiles }, 64, 1 << 20, false,
		}},
		{"limits.file_size", "", false, "Size of one file.", bytesize{
			func(c *Config) *int64 { return &c.Limits.FileSize }, 1 << 20, 1 << 40,
		}},
		{"limits.workspace", "", false, "All files of a workspace together. On an engine that sees no directory of this machine they are in memory, and hold a quarter of limits.memory at most.", bytesize{
			func(c *Config) *int64 { return &c.Limits.Workspace }, 1 << 20, 16 << 40,
		}},
		{"limits.output_kept", "", false, "How much of each output stream of a run stands in its result, half from the beginning and half from the end.", bytesize{
			func(c *Config) *int64 { return &c.Limits.OutputKept }, 4 << 10, 64 << 20,
		}},
		{"limits.output_logged", "", false, "How much of a run's output goes to its log file in the workspace. At least limits.output_kept.", bytesize{
			func(c *Config) *int64 { return &c.Limits.OutputLogged }, 4 << 10, 16 << 30,
		}},
		{"limits.sessions", "", false, "Sessions at the same time in one brig process. Agents together have all but a quarter of them, and but one at the least: the rest is the operator's. A command that runs without brig up is a process of its own.", count{
			func(c *Config) *int { return &c.Limits.Sessions }, 1, 1000, false,
		}},
		{"limits.idle", "", false, "How long a session may be idle before it is closed.", duration{
			func(c *Config) *time.Duration { return &c.Limits.Idle }, time.Minute, 7 * 24 * time.Hour,
		}},
	}
}

func services() []row {
	return []row{
		{"pool.docker", "", false, "Warm containers that brig up keeps ready.", count{func(c *Config) *int { return &c.Pool.Docker }, 0, 16, false}},
		{"pool.host", "", false, "Warm host sandboxes that brig up keeps ready.", count{func(c *Config) *int { return &c.Pool.Host }, 0, 16, false}},
		{"pool.wasm", "", true, "Warm WASM guests kept ready.", count{func(c *Config) *int { return &c.Pool.WASM }, 0, 16, false}},
		{"permissions.profile", "", false, "Who is asked before an agent's code runs through MCP. auto-approve: nobody, and every result says so. ask-always and custom: a person; this version cannot ask yet, so agents are not offered the tool that runs code. A program with an agent's credential (agent.sock, agent.token) runs contained code through HTTP without a person being asked, whatever this says.", choice[Profile]{
			at: func(c *Config) *Profile { return &c.Permissions.Profile }, words: []Profile{AutoApprove, AskAlways, Custom},
		}},
		{"permissions.consent_timeout", "", true, "How long a question waits for a person before it counts as declined.", duration{
			func(c *Config) *time.Duration { return &c.Permissions.ConsentTimeout }, 5 * time.Second, time.Hour,
		}},
		{"guard.host", "", true, "How closely source is checked before it runs in the host sandbox.", choice[Guard]{
			at: func(c *Config) *Guard { return &c.Guard.Host }, words: []Guard{Strict, Minimal},
		}},
		{"guard.docker", "", true, "The same for containers.", choice[Guard]{
			at: func(c *Config) *Guard { return &c.Guard.Docker }, words: []Guard{Strict, Minimal},
		}},
		{"guard.wasm", "", true, "The same for WASM guests.", choice[Guard]{
			at: func(c *Config) *Guard { return &c.Guard.WASM }, words: []Guard{Strict, Minimal},
		}},
		{"server.listen", "", false, "Where brig up listens beside its sockets. Only this machine can be let in, and only with a token of brig's runtime directory. Where another program has the default port brig takes a free one and says which; an address that was set is taken or refused. Port 0 is any free port; none is sockets only.", text{
			func(c *Config) *string { return &c.Server.Listen }, "a loopback address and a port, such as 127.0.0.1:7411, [::1]:7411 or 127.0.0.1:0, or none", "", validListen,
		}},
	}
}

// section is the part of the name before the dot, field the one after it.
func (r row) section() string { s, _, _ := strings.Cut(r.name, "."); return s }
func (r row) field() string   { _, f, _ := strings.Cut(r.name, "."); return f }

// variable is the name of the key in the environment.
func (r row) variable() string {
	return prefix + strings.ToUpper(strings.ReplaceAll(r.name, ".", "_"))
}

// variables are all names of the key in the environment.
func (r row) variables() []string {
	if r.alias == "" {
		return []string{r.variable()}
	}
	return []string{r.alias, r.variable()}
}

// problem makes a Problem of a fault.
func (r row) problem(source string, f *fault) Problem {
	return Problem{Key: r.name, Source: source, Text: f.text, Allowed: r.allowed(), Suggestion: f.suggestion}
}
