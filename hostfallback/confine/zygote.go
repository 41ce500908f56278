package confine

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// VerbZygote is the hidden first argument of the supervisor of a zygote, which
// keeps every session that is forked from it.
const VerbZygote = "--brig-supervise-zygote"

// FDSessions is where that supervisor is asked for sessions: a socket that keeps
// messages apart. Each carries a Plan and the descriptors of Ask.
const FDSessions = 5

// FDZygoteProc is the one descriptor that a zygote has beside the standard ones:
// a /proc that it can write to. Descriptor 0 is its socket.
const FDZygoteProc = 3

// AskDescriptors are what comes with a plan for a session, in this order: the
// runner's three, then control and status as every supervisor has them.
const AskDescriptors = 5

// MaxAsk bounds such a message in bytes.
const MaxAsk = 128 << 10

// Zygote makes a plan that of a warmed interpreter: nothing runs in it, and
// sessions are forked from it. Workspace and Scratch of such a plan are
// directories that hold those of all its sessions.
type Zygote struct {
	// Packages are imported in advance, if they are installed. Their code then runs
	// before a session is confined, so none is the only choice that trusts nobody.
	Packages []string `json:"packages"`
	Path     []string `json:"path"`    // where the interpreter, started in full, finds modules
	Seconds  float64  `json:"seconds"` // for the imports; what does not fit is left out
}

// Warmed is what a zygote says of itself.
type Warmed struct {
	Packages []string `json:"packages"` // that were imported
	Threads  int      `json:"threads"`
	Seconds  float64  `json:"seconds"`
}

// Forked says of a report that the instance was forked from a zygote, and what
// its supervisor saw of it from outside.
type Forked struct {
	Packages []string `json:"packages,omitempty"` // that were imported in advance
	Filters  int      `json:"filters"`            // system call filters in force: the zygote's own and the session's
	Seen     []string `json:"seen"`               // what was looked at from outside and agreed
}

// sessionOrder is all that a forked session is told: a rendering of its policy
// as the steps that it takes.
type sessionOrder struct {
	Env        []string        `json:"env"`
	Path       []string        `json:"path"` // where the interpreter finds modules
	Workspace  string          `json:"workspace"`
	Scratch    string          `json:"scratch"`
	Namespaces Namespaces      `json:"namespaces"`
	PrivateShm bool            `json:"private_shm"`
	Mounts     []sessionMount  `json:"mounts"`
	Limits     []sessionLimit  `json:"limits"`
	Data       int64           `json:"data"`
	CPUs       int             `json:"cpus"`
	Turn       int             `json:"turn"`
	Landlock   sessionLandlock `json:"landlock"`
	Seccomp    sessionSeccomp  `json:"seccomp"`
}

// sessionMount is one step of making the zygote's view that of one session.
type sessionMount struct {
	Do    string `json:"do"` // one of the do constants
	At    string `json:"at"`
	Kind  string `json:"kind"`
	Flags int    `json:"flags"`
	Data  string `json:"data"`
}

const (
	doMount  = "mount"  // a new file system of this kind
	doShow   = "show"   // the directory that was there before all steps, which make the way to it
	doHide   = "hide"   // a file, by the device that is always empty
	doChange = "change" // the flags of a mount
)

// sessionLimit is name, number and value of an rlimit.
type sessionLimit [3]any

// sessionLandlock is the ruleset, and what is to be reported of it.
type sessionLandlock struct {
	ABI     int      `json:"abi"`
	Used    int      `json:"used"`
	Errata  int      `json:"errata"`
	Handled Handled  `json:"handled"`
	Rules   []Rule   `json:"rules"`
	Missing []string `json:"missing"`
}

type sessionSeccomp struct {
	Program string  `json:"program"` // hex, as the kernel takes it
	Number  int     `json:"number"`  // of the system call
	Flags   int     `json:"flags"`
	Report  Seccomp `json:"report"`
}

// Flags of mount(2).
const (
	mountReadOnly = 1 << 0
	mountNoSuid   = 1 << 1
	mountNoDev    = 1 << 2
	mountNoExec   = 1 << 3
	mountRemount  = 1 << 5
	mountBind     = 1 << 12
)

// sessionMounts hides the directories of all sessions and shows this one's own
// again, and gives it temporary files, shared memory and a /proc of its own. What
// else the zygote sees is what every session of its policy base is granted. zygote
// are the steps that made the zygote's view, and hidden what hides parts of a /proc.
func (p Policy) sessionMounts(zygote, hidden []Step, bases ...string) []sessionMount {
	const quiet = mountNoSuid | mountNoDev | mountNoExec
	var steps, sealed []sessionMount
	gate := func(at string) {
		steps = append(steps, sessionMount{Do: doMount, At: at, Kind: "tmpfs", Flags: quiet, Data: "size=256k,mode=711"})
		sealed = append(sealed, sessionMount{Do: doChange, At: at, Flags: mountRemount | mountBind | mountReadOnly | quiet})
	}
	for _, s := range shared(zygote) {
		data := inMemoryOptions(s.Size, s.Inodes) + ",mode=" + strconv.FormatUint(uint64(s.Mode), 8)
		flags := mountNoSuid | mountNoDev
		if slices.Contains(s.Attrs, NoExec) {
			flags |= mountNoExec
		}
		steps = append(steps, sessionMount{Do: doMount, At: s.Path, Kind: "tmpfs", Flags: flags, Data: data})
	}
	gates := make(map[string]bool)
	show := slices.DeleteFunc(granted(zygote), func(at string) bool {
		return slices.Contains(bases, at) || !slices.ContainsFunc(steps, func(s sessionMount) bool { return below(at, s.At) })
	})
	for _, base := range slices.Concat(bases, show) {
		at := base
		for _, s := range shared(zygote) {
			if below(base, s.Path) {
				// It is hidden already. The first directory on the way is one by itself, as in every private root.
				first, _, _ := strings.Cut(base[len(s.Path)+1:], "/")
				at = path.Join(s.Path, first)
			}
		}
		if !gates[at] {
			gates[at] = true
			gate(at)
		}
	}
	for _, own := range append(show, p.Workspace, p.Scratch) {
		steps = append(steps, sessionMount{Do: doShow, At: own})
	}
	// The /proc comes last, because the steps before find their sources by the zygote's.
	steps = append(steps, sealed...)
	steps = append(steps, sessionMount{Do: doMount, At: procDir, Kind: "proc", Flags: mountReadOnly | quiet})
	for _, s := range hidden {
		switch s.Op {
		case OpTmpfs:
			data := inMemoryOptions(s.Size, 0) + ",mode=" + strconv.FormatUint(uint64(s.Mode), 8)
			steps = append(steps, sessionMount{Do: doMount, At: s.Path, Kind: "tmpfs", Flags: mountReadOnly | quiet, Data: data})
		case OpBind: // of a device, so that devices may be there
			steps = append(steps, sessionMount{Do: doHide, At: s.Path},
				sessionMount{Do: doChange, At: s.Path, Flags: mountRemount | mountBind | mountReadOnly | mountNoSuid | mountNoExec})
		}
	}
	return steps
}

// granted are the places of a view where something of the machine is.
func granted(view []Step) []string {
	var places []string
	for _, s := range view {
		if s.Op == OpBind {
			places = append(places, s.Path)
		}
	}
	return places
}

// shared are the file systems in memory that everything in a view may write to.
func shared(view []Step) []Step {
	return slices.DeleteFunc(slices.Clone(view), func(s Step) bool { return s.Op != OpTmpfs || s.Mode != modeShared })
}

// sessionWritable are the mounts of a session that are not read-only.
func (p Policy) sessionWritable(zygote []Step, bases ...string) map[string]bool {
	writable := map[string]bool{p.Workspace: true, p.Scratch: true}
	for at, readOnly := range Mounted(zygote) {
		if !readOnly && !slices.Contains(bases, at) {
			writable[at] = true
		}
	}
	return writable
}
