package hostfallback

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"brig/hostfallback/confine"
)

// sockets are the socket files in granted directories that somebody listens on and
// that this user may connect to: a read-only mount does not stop a connection. The
// kernel lists all that are bound in brig's network, so no tree is walked. A name
// that is not absolute is looked for in each granted directory itself.
func sockets(g confine.Grants) []string {
	table, err := os.ReadFile("/proc/net/unix")
	if err != nil { // nobody can say that there are none
		return []string{"any socket there (" + err.Error() + ")"}
	}
	return socketsOf(string(table), slices.Concat(g.Execute, g.Read))
}

func socketsOf(table string, granted []string) []string {
	var trees, found []string
	for _, dir := range granted {
		if info, err := os.Stat(dir); err == nil && info.IsDir() && dir != "/proc" {
			trees = append(trees, resolve(dir))
		}
	}
	look := func(path string) {
		path = resolve(path)
		inside := slices.ContainsFunc(trees, func(dir string) bool { return within(path, dir) })
		if !inside || slices.Contains(found, path) {
			return
		}
		info, err := os.Lstat(path)
		if err == nil && info.Mode()&fs.ModeSocket != 0 && unix.Access(path, unix.W_OK) == nil {
			found = append(found, path)
		}
	}
	for line := range strings.Lines(table) {
		// Number, references, protocol, flags, type, state, inode and the name, which may have blanks in it.
		line = strings.TrimSuffix(line, "\n")
		for range 7 {
			_, line, _ = strings.Cut(strings.TrimLeft(line, " "), " ")
		}
		switch {
		case line == "" || line[0] == '@':
		case line[0] == '/':
			look(line)
		default:
			for _, dir := range trees {
				look(filepath.Join(dir, line))
			}
		}
	}
	return found
}
