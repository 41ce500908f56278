package confine

// Landlock's rights on files (linux/landlock.h). They are written down here so
// that rules can be built and tested on any system.
const (
	fsExecute = 1 << iota
	fsWriteFile
	fsReadFile
	fsReadDir
	fsRemoveDir
	fsRemoveFile
	fsMakeChar
	fsMakeDir
	fsMakeReg
	fsMakeSock
	fsMakeFifo
	fsMakeBlock
	fsMakeSym
	fsRefer
	fsTruncate
	fsIoctlDev
)

// Rights by what a grant is for. Rights that the ruleset in use does not know
// are left out.
const (
	rightsRead    = fsReadFile | fsReadDir
	rightsExecute = rightsRead | fsExecute
	// Without execute: a program that code writes cannot be started by its path.
	// (It can be started from memory, under the same confinement, so that is no
	// claim; it keeps a planted file from being run by accident.) Without
	// devices too.
	rightsWrite = rightsRead | fsWriteFile | fsTruncate | fsRemoveDir | fsRemoveFile |
		fsMakeDir | fsMakeReg | fsMakeSock | fsMakeFifo | fsMakeSym | fsRefer
	rightsDevice = fsReadFile | fsWriteFile | fsTruncate
	// The machine's own /dev/shm: semaphores can be made, others' cannot be listed.
	rightsSharedShm = fsReadFile | fsWriteFile | fsMakeReg | fsRemoveFile | fsTruncate
	// What a rule on a file that is no directory may say.
	rightsOfFile = fsExecute | fsWriteFile | fsReadFile | fsTruncate | fsIoctlDev
)

// Rule grants rights at a path and below.
type Rule struct {
	Path   string `json:"path"`
	For    string `json:"for"` // one of the For constants
	Rights uint64 `json:"rights"`
}

// What a rule is for.
const (
	ForWrite   = "write"
	ForExecute = "execute"
	ForRead    = "read"
	ForDevice  = "device"
	ForShm     = "shm"
)

// Rules are the Landlock rules of the policy, for what the survey found. own are
// file systems in memory that nobody but the instance has.
func (p Policy) Rules(v Survey, own ...string) []Rule {
	var rules []Rule
	grant := func(what string, rights uint64, paths ...string) {
		for _, name := range paths {
			f := v.Paths[name]
			switch f.Kind {
			case Dir:
				rules = append(rules, Rule{f.Real, what, rights})
			case File, Device:
				rules = append(rules, Rule{f.Real, what, rights & rightsOfFile})
			}
		}
	}
	grant(ForWrite, rightsWrite, p.Workspace, p.Scratch)
	grant(ForExecute, rightsExecute, p.Grants.Execute...)
	grant(ForRead, rightsRead, p.Grants.Read...)
	grant(ForDevice, rightsDevice, p.Grants.Devices...)
	shared := p.Mode == ModeBestEffort
	for _, dir := range own {
		what := ForWrite
		if dir == shmRoot {
			what, shared = ForShm, false
		}
		rules = append(rules, Rule{dir, what, rightsWrite})
	}
	if shared {
		rules = append(rules, Rule{shmRoot, ForShm, rightsSharedShm})
	}
	return rules
}

// Ungranted are grants whose path could not be used.
func (p Policy) Ungranted(v Survey) []string {
	var missing []string
	for _, list := range [][]string{{p.Workspace, p.Scratch}, p.Grants.Execute, p.Grants.Read, p.Grants.Devices} {
		for _, name := range list {
			if k := v.Paths[name].Kind; k == Missing || k == Other {
				missing = append(missing, name)
			}
		}
	}
	return missing
}
