package confine

// Policy is what an instance may do. It is inert data: the system call filter,
// the Landlock rules, the private root, the control group, the Seatbelt profile
// and the Windows job and token are renderings of it, pure functions that can be
// read and tested on any system. What a machine made of a rendering is told by
// the Report.
type Policy struct {
	Mode    Mode    `json:"mode"`
	Network Network `json:"network"`
	// Workspace and Scratch are the only places that can be written to. Both are
	// real paths of directories that exist.
	Workspace string `json:"workspace"`
	Scratch   string `json:"scratch"`
	Grants    Grants `json:"grants"`
	// Protected are files and directories that stay out of reach, or read-only
	// where a grant contains them: brig's own, and configuration that others run.
	Protected []string `json:"protected,omitempty"`
	Limits    Limits   `json:"limits"`
	// Namespace asks for namespaces of the instance's own, where the kernel gives
	// them to this user.
	Namespace bool `json:"namespace"`
}

// Mode is how strictly the instance must be confined.
type Mode string

const (
	ModeOff        Mode = "off"         // hygiene, limits and the tree kill only
	ModeBestEffort Mode = "best-effort" // everything this machine offers
	ModeRequire    Mode = "require"     // calls that no layer here can confine are refused
)

// Network is what of a network the instance has.
type Network string

const (
	NetworkDeny     Network = "deny"     // no socket of the internet
	NetworkLoopback Network = "loopback" // a private one, with nothing but the instance on it
	NetworkAllow    Network = "allow"    // that of the machine
)

// Inet says that internet sockets are wanted.
func (p Policy) Inet() bool { return p.Network == NetworkLoopback || p.Network == NetworkAllow }

// Grants are paths that may be used beside workspace and scratch. A path that
// does not exist is skipped.
type Grants struct {
	Execute []string `json:"execute"` // read and execute
	Read    []string `json:"read"`
	Devices []string `json:"devices"` // read and write, never a directory
	// Links are symbolic links on the way to the interpreter, to be there as they
	// are; what they lead to is granted by its real path.
	Links []Link `json:"links,omitempty"`
}

// Link is a symbolic link: its own path and what it says.
type Link struct {
	Path   string `json:"path"`
	Target string `json:"target"`
}

// Limits of one instance; zero means none.
type Limits struct {
	Memory    int64 `json:"memory"`    // bytes, per process by rlimit and of the tree by watching
	Processes int   `json:"processes"` // threads count too
	CPUs      int   `json:"cpus"`
	MilliCPU  int   `json:"milli_cpu"` // thousandths of a processor, for a control group
	OpenFiles int   `json:"open_files"`
	FileSize  int64 `json:"file_size"`
	Disk      int64 `json:"disk"` // bytes, of workspace and scratch together
}
