package hostfallback

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"brig/hostfallback/confine"
)

// grants are what an instance with this interpreter may use beside workspace and scratch.
func (o Options) grants(in interpreter, runner string, inet bool) confine.Grants {
	g := systemGrants()
	minor := "/etc/python3." + strconv.Itoa(in.About.Version[1])
	g.Read = append(g.Read, "/etc/python3", minor, runner)
	if inet {
		g.Read = append(g.Read, networkGrants()...)
	}
	candidates, _ := o.trees(in)
	// Files by themselves: the program at the end of its links, and whatever it
	// has mapped, wherever a package manager keeps its libraries.
	candidates = append(candidates, resolve(in.About.Executable))
	for _, p := range in.About.Loaded {
		candidates = append(candidates, resolve(p))
	}
	// Shorter paths first, so that what a granted directory covers is left out.
	slices.SortFunc(candidates, func(a, b string) int { return len(a) - len(b) })
	for _, p := range candidates {
		if !slices.ContainsFunc(g.Execute, func(dir string) bool { return within(p, dir) }) {
			g.Execute = append(g.Execute, p)
		}
	}
	kept := slices.DeleteFunc(slices.Clone(in.About.Path), func(p string) bool { return slices.Contains(in.Left, resolve(p)) })
	g.Links = strangers(hops(slices.Concat([]string{in.About.Executable}, in.About.Prefixes, in.About.Own, kept)...), g.Execute)
	return g
}

// resolve is a path with its links followed, or the path itself where nothing is.
func resolve(path string) string {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		return resolved
	}
	return filepath.Clean(path)
}

// trees are the directories of an interpreter: its prefixes, where its build looks
// for modules, and the store of the package manager it is from. What else it looks
// into was named by somebody's .pth file, such as the user's project with all that
// lies beside the modules. It is left out, and named.
func (o Options) trees(in interpreter) (trees, left []string) {
	about := in.About
	name := fmt.Sprintf("python%d.%d", about.Version[0], about.Version[1])
	add := func(path string) bool {
		path = resolve(path)
		wide := o.tooWide(path)
		if !wide {
			trees = append(trees, path)
		}
		return !wide
	}
	for _, p := range about.Prefixes {
		if add(p) {
			continue
		}
		// A tree that others share as well, such as ~/.local: only what Python needs of it.
		p = resolve(p)
		for _, own := range []string{"lib/" + name, "lib64/" + name, "pyvenv.cfg"} {
			add(filepath.Join(p, own))
		}
	}
	for _, p := range about.Own {
		add(p)
	}
	trees = append(trees, stores(resolve(about.Executable))...)
	granted := slices.Concat(trees, systemGrants().Execute)
	for i := range granted {
		granted[i] = resolve(granted[i])
	}
	for _, p := range about.Path {
		p = resolve(p)
		if !slices.ContainsFunc(granted, func(dir string) bool { return within(p, dir) }) && !slices.Contains(left, p) {
			left = append(left, p)
		}
	}
	return trees, left
}

// notGranted words what was left out; empty where nothing was.
func (in interpreter) notGranted() string {
	if len(in.Left) == 0 {
		return ""
	}
	return strings.Join(in.Left, ", ") + ", named by a .pth file; copy what you need into the workspace, or install it without --editable"
}

// secluded refuses to start where a directory that must stay out of reach lies in
// a tree of the system, which every program needs: nothing could keep code from it.
func (o Options) secluded() error {
	for _, dir := range append([]string{o.env("HOME")}, o.Protected...) {
		if !exists(dir) {
			continue
		}
		for _, tree := range systemGrants().Execute {
			if within(resolve(dir), resolve(tree)) {
				return unavailable("home-in-system-tree", "move the directory, or start a Docker engine, then: brig doctor", nil,
					"%s lies below %s, which every program has to read, so the host sandbox cannot keep code from it", dir, tree)
			}
		}
	}
	return nil
}

// tooWide says that granting a directory would grant what is not the
// interpreter's: everything, the user's home, what programs keep there, a project
// or brig's own files.
func (o Options) tooWide(dir string) bool {
	if dir == "/" || !filepath.IsAbs(dir) {
		return true
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() && !info.Mode().IsRegular() {
		return true
	}
	guarded := append([]string{o.Cache, o.Runtime, "/etc", "/root", "/home", "/var", "/run", "/tmp", "/dev", "/sys", "/boot"}, o.Protected...)
	if home := o.env("HOME"); home != "" {
		home = resolve(home)
		guarded = append(guarded, home)
		for _, name := range []string{".local/share", ".local/state", ".local/bin", ".config", ".cache", ".ssh", ".gnupg"} {
			guarded = append(guarded, filepath.Join(home, name))
		}
	}
	for _, g := range guarded {
		if g != "" && within(resolve(g), dir) {
			return true
		}
	}
	// Somebody's home or project that an environment was made in.
	return slices.ContainsFunc([]string{".ssh", ".gnupg", ".config", ".git", ".hg", ".env", "pyproject.toml", "setup.py"}, func(name string) bool {
		return exists(filepath.Join(dir, name))
	})
}

// within says that path is dir or lies below it. Both are clean.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// environment is everything that an instance finds in its environment. Nothing
// of brig's own is passed on, and nothing in it belongs to one session.
func environment(token, scratch string, in interpreter, cpus int) []string {
	threads := strconv.Itoa(max(cpus, 1))
	return []string{
		"PATH=" + filepath.Dir(in.About.Executable) + ":/usr/local/bin:/usr/bin:/bin",
		"HOME=" + scratch, "TMPDIR=" + scratch, "XDG_CACHE_HOME=" + scratch + "/.cache",
		"MPLCONFIGDIR=" + scratch + "/.matplotlib", "MPLBACKEND=agg",
		"LANG=C.UTF-8", "PYTHONUNBUFFERED=1",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		// Numerical libraries reserve memory for each thread they could start.
		"OMP_NUM_THREADS=" + threads, "OPENBLAS_NUM_THREADS=" + threads, "MKL_NUM_THREADS=" + threads,
		"NUMEXPR_NUM_THREADS=" + threads, "MALLOC_ARENA_MAX=2",
		confine.Marker + "=" + token,
	}
}
