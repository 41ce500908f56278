package hostfallback

import (
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
	real := func(path string) string {
		if resolved, err := filepath.EvalSymlinks(path); err == nil {
			return resolved
		}
		return path
	}
	var candidates []string
	for _, p := range slices.Concat(in.About.Prefixes, in.About.Path) {
		if p = real(p); !o.tooWide(p) {
			candidates = append(candidates, p)
		}
	}
	// Files by themselves: the program at the end of its links, and whatever it
	// has mapped, wherever a package manager keeps its libraries.
	candidates = append(candidates, real(in.About.Executable))
	for _, p := range in.About.Loaded {
		candidates = append(candidates, real(p))
	}
	candidates = append(candidates, stores(real(in.About.Executable))...)
	// Shorter paths first, so that what a granted directory covers is left out.
	slices.SortFunc(candidates, func(a, b string) int { return len(a) - len(b) })
	for _, p := range candidates {
		if !slices.ContainsFunc(g.Execute, func(dir string) bool { return within(p, dir) }) {
			g.Execute = append(g.Execute, p)
		}
	}
	g.Links = strangers(hops(slices.Concat([]string{in.About.Executable}, in.About.Prefixes, in.About.Path)...), g.Execute)
	return g
}

// tooWide says that granting a directory would grant what is not the
// interpreter's: everything, the user's home, or brig's own files.
func (o Options) tooWide(dir string) bool {
	if dir == "/" || !filepath.IsAbs(dir) {
		return true
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() && !info.Mode().IsRegular() {
		return true
	}
	guarded := append([]string{o.env("HOME"), o.Cache, o.Runtime, "/etc", "/root", "/home", "/var", "/run", "/tmp", "/dev", "/sys", "/boot"}, o.Protected...)
	for _, g := range guarded {
		if g == "" {
			continue
		}
		if resolved, err := filepath.EvalSymlinks(g); err == nil {
			g = resolved
		}
		if within(g, dir) {
			return true
		}
	}
	return false
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
