package hostfallback

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"brig/hostfallback/confine"
)

// maxHops is how many links one path may lead through, as for the kernel.
const maxHops = 40

// hops are the symbolic links that somebody meets who opens these paths by the
// names given. Whoever sees only a part of the file system needs them beside what
// they lead to: a virtual environment, a version manager's alias and a home
// directory that is a link all begin with a name that is not the real one.
// Paths that lead nowhere have no hops.
func hops(paths ...string) []confine.Link {
	var found []confine.Link
	seen := make(map[string]bool)
	for _, path := range paths {
		if !filepath.IsAbs(path) {
			continue
		}
		var mine []confine.Link
		rest, at := components(path), "/"
		for len(rest) > 0 && len(mine) <= maxHops {
			name := rest[0]
			rest = rest[1:]
			if name == ".." {
				at = filepath.Dir(at)
				continue
			}
			next := filepath.Join(at, name)
			target, err := os.Readlink(next)
			if err != nil { // no link, or nothing at all
				at = next
				continue
			}
			mine = append(mine, confine.Link{Path: next, Target: target})
			if filepath.IsAbs(target) {
				at = "/"
			}
			rest = append(components(target), rest...)
		}
		if _, err := os.Lstat(at); err != nil || len(mine) > maxHops {
			continue
		}
		for _, l := range mine {
			if !seen[l.Path] {
				seen[l.Path] = true
				found = append(found, l)
			}
		}
	}
	return found
}

// components are the names of a path, without the empty one and the dot. Two dots
// stay: behind a link they do not mean the directory that stands before them.
func components(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(name string) bool { return name == "" || name == "." })
}

// strangers leaves out the links that lie in a directory that is granted as a whole.
func strangers(links []confine.Link, dirs []string) []confine.Link {
	return slices.DeleteFunc(links, func(l confine.Link) bool {
		return slices.ContainsFunc(dirs, func(dir string) bool { return within(l.Path, dir) && l.Path != dir })
	})
}
