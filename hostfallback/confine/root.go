package confine

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

const (
	procDir = "/proc"
	tmpDir  = "/tmp"
	devDir  = "/dev"
	shmRoot = "/dev/shm"

	modeDir     = 0o755
	modePassage = 0o111 // of a directory that is there only to lead somewhere: its names are nobody's business
	modeShared  = 0o1777

	sizeRoot = 1 << 20

	// A file takes memory even when it is empty.
	inodeSize   = 1 << 10  // about
	perInode    = 16 << 10 // of the memory limit, in each file system in memory
	fewestNodes = 1 << 10
)

// Root is the private root of an instance: what the policy grants, at the paths
// where the machine has it, and nothing else. What does not exist in it cannot be
// reached, whatever a call is and whether or not any other layer knows it.
//
// All of it is read-only except workspace, scratch and two file systems in memory,
// /tmp and /dev/shm, which end with the instance and count as its memory.
func (p Policy) Root(v Survey) []Step {
	r := root{policy: p, survey: v, known: map[string]bool{"/": true, devDir: true}}
	r.collect()
	return r.steps()
}

// Unprotected are protected paths inside what may be written to that a private
// root cannot keep read-only, because there is nothing yet to mount on.
func (p Policy) Unprotected(v Survey) []string {
	var missing []string
	for _, guarded := range p.Protected {
		if f := v.Paths[guarded]; f.Kind == Missing && (below(guarded, p.Workspace) || below(guarded, p.Scratch)) {
			missing = append(missing, guarded)
		}
	}
	return missing
}

// root collects a layout before it is written down.
type root struct {
	policy Policy
	survey Survey

	granted []Found // read-only, sorted, none inside another or inside what is writable
	devices []Found
	links   []Link

	known map[string]bool // paths that exist in the new root by now
	made  []Step          // directories and files to mount on, and links
	gates []string        // directories that only lead somewhere
}

func (r *root) writable() []string {
	dirs := []string{r.policy.Workspace}
	if !within(r.policy.Scratch, r.policy.Workspace) {
		dirs = append(dirs, r.policy.Scratch)
	}
	slices.SortFunc(dirs, shorter)
	return dirs
}

// private says that the instance gets its own file system at dir: nothing that
// is granted takes its place.
func (r *root) private(dir string) bool {
	if dir == shmRoot && r.survey.SharedShm || r.covered(dir) {
		return false
	}
	return !slices.ContainsFunc(r.writable(), func(w string) bool { return within(dir, w) })
}

// collect sorts what was found into what has to be mounted.
func (r *root) collect() {
	g := r.policy.Grants
	var all []Found
	for _, name := range slices.Concat(g.Execute, g.Read, g.Devices) {
		f := r.survey.Paths[name]
		r.links = append(r.links, f.Links...)
		switch {
		case f.Kind == Device:
			r.devices = append(r.devices, f)
		case (f.Kind == Dir || f.Kind == File) && f.Real != "/":
			all = append(all, f)
		}
	}
	for _, l := range g.Links {
		r.links = append(r.links, r.survey.Paths[l.Path].Links...)
	}
	slices.SortFunc(all, func(a, b Found) int { return shorter(a.Real, b.Real) })
	slices.SortFunc(r.devices, func(a, b Found) int { return shorter(a.Real, b.Real) })
	r.devices = slices.CompactFunc(r.devices, func(a, b Found) bool { return a.Real == b.Real })
	inside := func(real string) bool {
		return within(real, procDir) ||
			slices.ContainsFunc(r.writable(), func(w string) bool { return within(real, w) }) || r.covered(real)
	}
	for _, f := range all {
		if !inside(f.Real) {
			r.granted = append(r.granted, f)
		}
	}
}

// covered says that a path is granted, or inside a directory that is.
func (r *root) covered(real string) bool {
	return slices.ContainsFunc(r.granted, func(f Found) bool { return f.Real == real || f.Kind == Dir && below(real, f.Real) })
}

// steps writes the layout down. Directories come before everything is made
// read-only, and what may be written to is mounted after it. There is a /proc
// whatever the policy grants: the helper looks at itself in it.
func (r *root) steps() []Step {
	var binds, late, reopen []Step
	own := r.memory()
	for _, s := range own {
		if s.Op == OpTmpfs && s.Path != "/" {
			reopen = append(reopen, Step{Op: OpOpen, Path: s.Path})
		}
	}
	for _, f := range r.granted {
		r.place(f.Real, f.Kind)
		binds = append(binds, Step{Op: OpBind, Path: f.Real, Source: f.Real})
	}
	for _, dir := range r.writable() {
		r.place(dir, Dir)
		late = append(late, Step{Op: OpBind, Path: dir, Source: dir}, Step{Op: OpAttr, Path: dir, Attrs: []Attr{NoSuid, NoDev}})
	}
	late = append(late, r.protected()...)
	for _, f := range r.devices {
		r.place(f.Real, File)
		late = append(late, Step{Op: OpBind, Path: f.Real, Source: f.Real}, Step{Op: OpAttr, Path: f.Real, Attrs: []Attr{NoSuid, NoExec}})
	}
	r.place(procDir, Dir)
	if r.survey.SharedShm {
		r.place(shmRoot, Dir)
		late = append(late, Step{Op: OpBind, Path: shmRoot, Source: shmRoot}, Step{Op: OpAttr, Path: shmRoot, Attrs: []Attr{NoSuid, NoDev, NoExec}})
	}
	for _, l := range append(r.links, deviceLinks()...) {
		r.link(l)
	}
	for _, gate := range r.gates {
		r.made = append(r.made, Step{Op: OpMode, Path: gate, Mode: modePassage})
	}
	late = append(late, r.proc()...)

	out := slices.Concat(own, r.made, binds)
	out = append(out, Step{Op: OpAttr, Path: "/", Attrs: []Attr{ReadOnly, NoSuid, NoDev}})
	out = append(out, reopen...)
	out = append(out, late...)
	return append(out, Step{Op: OpPivot, Path: "/"}, Step{Op: OpLeave, Path: "/"})
}

// memory are the file systems that are the instance's own.
func (r *root) memory() []Step {
	out := []Step{{Op: OpTmpfs, Path: "/", Size: sizeRoot, Mode: modeDir}, {Op: OpDir, Path: devDir, Mode: modeDir}}
	own := func(dir string, size int64) {
		if r.private(dir) {
			r.known[dir] = true
			out = append(out, Step{Op: OpDir, Path: dir, Mode: modeDir},
				Step{Op: OpTmpfs, Path: dir, Size: max(size, sizeRoot), Inodes: r.policy.Limits.inodes(), Mode: modeShared, Attrs: []Attr{NoExec}})
		}
	}
	own(tmpDir, r.policy.Limits.Memory/8)
	own(shmRoot, r.policy.Limits.Memory/2)
	return out
}

// inodes are how many files a file system in memory may have.
func (l Limits) inodes() int64 { return max(l.Memory/perInode, fewestNodes) }

// proc is the last mount, when everything else is as it will be.
func (r *root) proc() []Step {
	attrs := []Attr{ReadOnly, NoSuid, NoDev, NoExec}
	out := []Step{{Op: OpProc, Path: procDir, Attrs: attrs}}
	if !r.survey.Process {
		out = []Step{{Op: OpBind, Path: procDir, Source: procDir}, {Op: OpAttr, Path: procDir, Attrs: attrs}}
	}
	if r.survey.Bare {
		return out
	}
	return append(out, hide(r.survey)...)
}

// place makes something to mount on, and the way to it, unless a directory that
// is mounted as a whole has it already.
func (r *root) place(real string, kind Kind) {
	if r.known[real] || r.coveredElsewhere(real) {
		return
	}
	r.way(path.Dir(real))
	r.known[real] = true
	if kind == Dir {
		r.made = append(r.made, Step{Op: OpDir, Path: real, Mode: modeDir})
	} else {
		r.made = append(r.made, Step{Op: OpFile, Path: real})
	}
}

// coveredElsewhere says that a path is inside another directory that is mounted.
func (r *root) coveredElsewhere(real string) bool {
	return slices.ContainsFunc(r.granted, func(f Found) bool { return f.Kind == Dir && below(real, f.Real) }) ||
		slices.ContainsFunc(r.writable(), func(w string) bool { return below(real, w) })
}

// way makes the directories that lead to something. In a private file system the
// first of them is one by itself: read-only and, because it is mounted, not to be
// renamed or removed.
func (r *root) way(dir string) {
	if r.known[dir] || r.coveredElsewhere(dir) {
		return
	}
	parent := path.Dir(dir)
	r.way(parent)
	r.known[dir] = true
	r.made = append(r.made, Step{Op: OpDir, Path: dir, Mode: modeDir})
	if (parent == tmpDir || parent == shmRoot) && r.private(parent) {
		r.made = append(r.made, Step{Op: OpTmpfs, Path: dir, Size: sizeRoot, Mode: modeDir})
	}
	r.gates = append(r.gates, dir)
}

// link makes a symbolic link, unless something is there already.
func (r *root) link(l Link) {
	if r.known[l.Path] || r.covered(l.Path) || within(l.Path, procDir) || !path.IsAbs(l.Path) ||
		slices.ContainsFunc(r.writable(), func(w string) bool { return within(l.Path, w) }) {
		return
	}
	r.way(path.Dir(l.Path))
	r.known[l.Path] = true
	r.made = append(r.made, Step{Op: OpLink, Path: l.Path, Source: l.Target})
}

// deviceLinks are what programs expect in /dev beside devices.
func deviceLinks() []Link {
	return []Link{
		{"/dev/fd", "/proc/self/fd"},
		{"/dev/stdin", "/proc/self/fd/0"},
		{"/dev/stdout", "/proc/self/fd/1"},
		{"/dev/stderr", "/proc/self/fd/2"},
	}
}

// protected keeps what must not change inside of what may be written to. The
// directories on the way are mounted onto themselves: else one of them could be
// renamed, and another one be made in its place.
func (r *root) protected() []Step {
	var guarded []string
	for _, name := range r.policy.Protected {
		// A link could be led elsewhere; only what really is there can be mounted on.
		if f := r.survey.Paths[name]; (f.Kind == Dir || f.Kind == File) && f.Real == name {
			guarded = append(guarded, name)
		}
	}
	slices.SortFunc(guarded, shorter)
	var out []Step
	ways := make(map[string]bool)
	for _, dir := range r.writable() {
		for _, name := range guarded {
			if !below(name, dir) {
				continue
			}
			for _, way := range between(dir, name) {
				if !ways[way] {
					ways[way] = true
					out = append(out, Step{Op: OpSelf, Path: way})
				}
			}
		}
		for _, name := range guarded {
			if below(name, dir) {
				out = append(out, Step{Op: OpSelf, Path: name}, Step{Op: OpAttr, Path: name, Attrs: []Attr{ReadOnly, NoSuid, NoDev}})
			}
		}
	}
	return out
}

// between are the directories between dir and name, from above.
func between(dir, name string) []string {
	var out []string
	for d := path.Dir(name); below(d, dir); d = path.Dir(d) {
		out = append([]string{d}, out...)
	}
	return out
}

func shorter(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }

// within says that name is dir or lies below it. Both are clean.
func within(name, dir string) bool { return name == dir || below(name, dir) }

func below(name, dir string) bool {
	return name != dir && strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/")
}
