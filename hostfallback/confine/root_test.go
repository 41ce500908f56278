package confine

import (
	"bytes"
	"embed"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

//go:embed testdata/roots
var goldenRoots embed.FS

// surveyOf is a survey by hand: what is at a path, and the links on the way there.
func surveyOf(kinds map[Kind][]string, links ...[]string) Survey {
	v := Survey{Paths: make(map[string]Found), Process: true}
	for kind, names := range kinds {
		for _, name := range names {
			v.Paths[name] = Found{Kind: kind, Real: name}
		}
	}
	// Each is a path, what it is, what it really is, and then pairs: a link and what it says.
	for _, l := range links {
		f := Found{Kind: Kind(l[1]), Real: l[2]}
		for i := 3; i < len(l); i += 2 {
			f.Links = append(f.Links, Link{l[i], l[i+1]})
		}
		v.Paths[l[0]] = f
	}
	return v
}

// layout is a policy, and a machine that it is rendered for.
type layout struct {
	policy Policy
	survey Survey
}

func layouts() map[string]layout {
	limits := Limits{Memory: 1 << 30}
	usual := Grants{
		Execute: []string{"/usr", "/bin", "/lib", "/lib64", "/libx32"},
		Read: []string{
			"/proc", "/sys/devices/system/cpu", "/etc/ld.so.cache", "/etc/localtime", "/etc/ssl/certs", "/etc/passwd",
			"/dev/zero", "/dev/urandom", "/home/u/.cache/brig/runner",
		},
		Devices: []string{"/dev/null"},
	}
	merged := func(kinds map[Kind][]string, links ...[]string) Survey {
		all := map[Kind][]string{
			Dir:    {"/usr", "/proc", "/proc/acpi", "/sys/devices/system/cpu", "/etc/ssl/certs", "/home/u/.cache/brig/runner"},
			File:   {"/etc/ld.so.cache", "/etc/passwd", "/proc/keys", "/proc/locks"},
			Device: {"/proc/kcore", "/dev/null", "/dev/zero", "/dev/urandom"},
		}
		for kind, names := range kinds {
			all[kind] = append(all[kind], names...)
		}
		return surveyOf(all, append(links,
			[]string{"/bin", "dir", "/usr/bin", "/bin", "usr/bin"}, []string{"/lib", "dir", "/usr/lib", "/lib", "usr/lib"},
			[]string{"/lib64", "dir", "/usr/lib64", "/lib64", "usr/lib64"},
			[]string{"/etc/localtime", "file", "/usr/share/zoneinfo/Etc/UTC", "/etc/localtime", "/usr/share/zoneinfo/Etc/UTC"},
		)...)
	}
	home := func(change func(*Policy)) Policy {
		p := Policy{
			Mode: ModeBestEffort, Network: NetworkDeny, Namespace: true, Grants: usual, Limits: limits,
			Workspace: "/home/u/.local/share/brig/w/1", Scratch: "/run/user/1000/brig/host/ab/scratch",
		}
		if change != nil {
			change(&p)
		}
		return p
	}
	dirs := func(names ...string) map[Kind][]string { return map[Kind][]string{Dir: names} }
	own := dirs("/home/u/.local/share/brig/w/1", "/run/user/1000/brig/host/ab/scratch")

	poor := merged(own)
	poor.Process, poor.SharedShm = false, true
	out := map[string]layout{
		"usual": {home(nil), merged(own)},
		"poor":  {home(func(p *Policy) { p.Limits = Limits{} }), poor},
		"below-tmp": {
			home(func(p *Policy) {
				p.Workspace, p.Scratch = "/tmp/a b/ünï/w", "/tmp/x"
				p.Grants.Execute = append([]string{"/tmp/venv/lib"}, p.Grants.Execute...)
			}), merged(dirs("/tmp/a b/ünï/w", "/tmp/x", "/tmp/venv/lib")),
		},
		"linked-home": {
			home(func(p *Policy) {
				p.Workspace, p.Scratch = "/data/home/u/w", "/data/home/u/s"
				p.Grants.Execute = append(p.Grants.Execute, "/home/u/venv", "/opt/python/bin/python3.13")
				p.Grants.Links = []Link{{"/data/home/u/venv/bin/python", "python3"}, {"/home/u/shims/python", "../venv/bin/python"}, {"/gone", "/usr"}}
			}),
			merged(map[Kind][]string{Dir: {"/data/home/u/w", "/data/home/u/s"}, File: {"/opt/python/bin/python3.13"}},
				[]string{"/home/u/.cache/brig/runner", "dir", "/data/home/u/.cache/brig/runner", "/home", "/data/home"},
				[]string{"/home/u/venv", "dir", "/data/home/u/venv", "/home", "/data/home"},
				[]string{"/data/home/u/venv/bin/python", "file", "/opt/python/bin/python3.13", "/data/home/u/venv/bin/python", "python3"},
				[]string{"/home/u/shims/python", "file", "/opt/python/bin/python3.13", "/home", "/data/home", "/data/home/u/shims/python", "../venv/bin/python"},
			),
		},
		"protected": {
			home(func(p *Policy) {
				p.Protected = []string{
					"/home/u/.local/share/brig/w/1/.git/hooks", "/home/u/.local/share/brig/w/1/.git/config",
					"/home/u/.local/share/brig/w/1/.envrc", "/home/u/.local/share/brig/w/1/sub/deep/.git/hooks",
					"/home/u/.local/share/brig/w/1/led/astray", "/home/u/.config/brig",
				}
			}),
			merged(map[Kind][]string{
				Dir: append([]string{
					"/home/u/.local/share/brig/w/1/.git/hooks", "/home/u/.local/share/brig/w/1/sub/deep/.git/hooks", "/home/u/.config/brig",
				}, own[Dir]...),
				File: {"/home/u/.local/share/brig/w/1/.git/config"},
			}, []string{"/home/u/.local/share/brig/w/1/led/astray", "dir", "/usr/astray", "/home/u/.local/share/brig/w/1/led", "/usr"}),
		},
		"nested": { // the interpreter is inside the workspace, scratch too, and the workspace inside a grant
			home(func(p *Policy) {
				p.Workspace, p.Scratch = "/srv/all/w", "/srv/all/w/scratch"
				p.Grants.Execute = append(p.Grants.Execute, "/srv/all", "/srv/all/w/.venv", "/srv/all/lib")
			}), merged(dirs("/srv/all", "/srv/all/w", "/srv/all/w/scratch", "/srv/all/w/.venv", "/srv/all/lib")),
		},
		"in-memory": {
			home(func(p *Policy) {
				p.Workspace, p.Scratch = "/dev/shm/w", "/tmp"
				p.Grants.Read = append(p.Grants.Read, "/dev/shm/r/python", "/run/socket")
			}), merged(map[Kind][]string{Dir: {"/dev/shm/w", "/tmp", "/dev/shm/r/python"}, Other: {"/run/socket"}}),
		},
		"store": { // nothing but a store and links into it
			home(func(p *Policy) { p.Grants.Execute = append(p.Grants.Execute, "/nix/store") }),
			func() Survey {
				v := merged(map[Kind][]string{Dir: append([]string{"/nix/store"}, own[Dir]...)},
					[]string{"/etc/ssl/certs", "dir", "/nix/store/c/certs", "/etc/ssl/certs", "/etc/static/ssl/certs", "/etc/static", "/nix/store/e", "/nix/store/e/ssl/certs", "/nix/store/c/certs"})
				for _, name := range []string{"/usr", "/bin", "/lib", "/lib64", "/etc/localtime"} {
					v.Paths[name] = Found{}
				}
				return v
			}(),
		},
	}
	return out
}

func (s Step) text() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%-8s %q", s.Op, s.Path)
	if s.Source != "" {
		fmt.Fprintf(&out, " from %q", s.Source)
	}
	for _, a := range s.Attrs {
		fmt.Fprintf(&out, " %s", a)
	}
	if s.Size != 0 {
		fmt.Fprintf(&out, " size=%d", s.Size)
	}
	if s.Inodes != 0 {
		fmt.Fprintf(&out, " inodes=%d", s.Inodes)
	}
	if s.Mode != 0 {
		fmt.Fprintf(&out, " mode=%o", s.Mode)
	}
	return out.String()
}

// TestRootGolden: what a policy becomes on a machine, step by step and rule by
// rule, as files that can be read on any system.
func TestRootGolden(t *testing.T) {
	for name, l := range layouts() {
		var out bytes.Buffer
		for _, s := range l.policy.Root(l.survey) {
			fmt.Fprintln(&out, s.text())
		}
		fmt.Fprintf(&out, "unprotected %q\n", l.policy.Unprotected(l.survey))
		for _, r := range l.policy.Rules(l.survey, tmpDir, shmRoot) {
			fmt.Fprintf(&out, "rule     %q %s %#x\n", r.Path, r.For, r.Rights)
		}
		fmt.Fprintf(&out, "ungranted %q\n", l.policy.Ungranted(l.survey))
		file := "testdata/roots/" + name + ".golden"
		if *update {
			if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if want, err := goldenRoots.ReadFile(file); err != nil || !bytes.Equal(want, out.Bytes()) {
			t.Errorf("%s differs from the steps of today (%v); look at both, then: go test -run RootGolden -update\n%s", file, err, out.String())
		}
	}
}

// TestRootOrder: every step finds what it needs, and what comes out is read-only
// but for what the instance may write to.
func TestRootOrder(t *testing.T) {
	for name, l := range layouts() {
		exists := map[string]bool{"/": true}
		sealed := false
		steps := l.policy.Root(l.survey)
		for n, s := range steps {
			bound := func(p string) bool { // something mounted as a whole has it
				return slices.ContainsFunc(steps[:n], func(b Step) bool { return (b.Op == OpBind || b.Op == OpSelf || b.Op == OpProc) && within(p, b.Path) })
			}
			switch s.Op {
			case OpDir, OpFile, OpLink:
				if !exists[path.Dir(s.Path)] || exists[s.Path] || sealed {
					t.Errorf("%s: %s: the way is not there, or it is, or everything is read-only", name, s.text())
				}
				exists[s.Path] = s.Op == OpDir // nothing may be made below a file or through a link
			case OpTmpfs, OpBind, OpSelf, OpProc, OpMode:
				if _, made := exists[s.Path]; !made && !bound(s.Path) {
					t.Errorf("%s: %s: there is nothing to mount on", name, s.text())
				}
			case OpAttr:
				sealed = sealed || s.Path == "/" && slices.Contains(s.Attrs, ReadOnly)
			}
		}
		if len(steps) < 2 || steps[len(steps)-2].Op != OpPivot || steps[len(steps)-1].Op != OpLeave {
			t.Errorf("%s: it does not end in the new root", name)
		}
		p := l.policy
		for at, readOnly := range Mounted(steps) {
			device := l.survey.Paths[at].Kind == Device && within(at, devDir)
			guarded := slices.ContainsFunc(p.Protected, func(g string) bool { return within(at, g) })
			mine := within(at, p.Workspace) || within(at, p.Scratch) || at == tmpDir || at == shmRoot
			if mine = mine && !guarded; readOnly == (mine || device) {
				t.Errorf("%s: %s is read-only: %v", name, at, readOnly)
			}
		}
		for _, dir := range []string{p.Workspace, p.Scratch} {
			if !slices.ContainsFunc(steps, func(s Step) bool { return s.Op == OpBind && within(dir, s.Path) && l.survey.Paths[s.Path].Kind == Dir }) {
				t.Errorf("%s: %s is not there", name, dir)
			}
		}
	}
}
