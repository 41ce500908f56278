package confine

import "strconv"

// Op is what a Step does.
type Op string

// Paths of steps are those of the new root.
const (
	OpTmpfs Op = "tmpfs"   // an empty file system in memory, of at most Size bytes and Inodes files
	OpDir   Op = "mkdir"   // a directory
	OpFile  Op = "file"    // an empty file to mount on
	OpLink  Op = "symlink" // to Source
	OpMode  Op = "chmod"   // to Mode
	OpBind  Op = "bind"    // Source of the old root, with what is mounted below it
	OpSelf  Op = "self"    // Path onto itself, so that it cannot be renamed
	OpAttr  Op = "attr"    // mount attributes, of all that is mounted below as well
	OpOpen  Op = "open"    // takes read-only back from this one mount
	OpProc  Op = "proc"    // the /proc of the own process namespace
	OpPivot Op = "pivot"   // makes it the root
	OpLeave Op = "umount"  // lets go of the old root
)

// Attr are mount attributes by name.
type Attr string

// Attributes of mounts.
const (
	ReadOnly Attr = "ro"
	NoSuid   Attr = "nosuid"
	NoDev    Attr = "nodev"
	NoExec   Attr = "noexec"
)

// Step is one step on the way to a private root, as data.
type Step struct {
	Op     Op     `json:"op"`
	Path   string `json:"path"`
	Source string `json:"source,omitempty"`
	Attrs  []Attr `json:"attrs,omitempty"`
	Size   int64  `json:"size,omitempty"`
	Inodes int64  `json:"inodes,omitempty"` // 0: as many as the kernel gives
	Mode   uint32 `json:"mode,omitempty"`
}

// Kind is what a path is.
type Kind string

// Kinds of paths.
const (
	Missing Kind = "" // or not to be looked at
	Dir     Kind = "dir"
	File    Kind = "file"
	Device  Kind = "device"
	Other   Kind = "other" // a socket or a pipe: never granted
)

// Found is what a path of the policy is on this machine.
type Found struct {
	Kind Kind   `json:"kind"`
	Real string `json:"real,omitempty"` // without symbolic links
	// Links are the symbolic links on the way, in the order in which they are met.
	// Their own paths have no links on the way any more.
	Links []Link `json:"links,omitempty"`
}

// Survey is what a machine has at the paths of a policy.
type Survey struct {
	Paths map[string]Found `json:"paths"`
	// Process: there is a process namespace, whose /proc can be mounted.
	Process bool `json:"process"`
	// Bare: /proc is left whole, for a zygote. Its sessions could not mount one of their
	// own if parts of this were hidden; they hide the parts of theirs.
	Bare bool `json:"bare,omitempty"`
	// SharedShm: /dev/shm stays that of the machine.
	SharedShm bool `json:"shared_shm,omitempty"`
}

// surveyed are the paths of a policy that a survey has to look at.
func (p Policy) surveyed() []string {
	paths := []string{p.Workspace, p.Scratch}
	for _, list := range [][]string{p.Grants.Execute, p.Grants.Read, p.Grants.Devices, p.Protected} {
		paths = append(paths, list...)
	}
	for _, l := range p.Grants.Links {
		paths = append(paths, l.Path)
	}
	return append(paths, hiddenProc()...)
}

// inMemoryOptions bound a file system in memory: its bytes, and its files. One that
// code cannot write to needs no bound of its files.
func inMemoryOptions(size, inodes int64) string {
	options := "size=" + strconv.FormatInt(size, 10)
	if inodes > 0 {
		options += ",nr_inodes=" + strconv.FormatInt(inodes, 10)
	}
	return options
}
