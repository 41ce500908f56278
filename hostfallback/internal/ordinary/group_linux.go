package ordinary

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Delegate makes a control group of version 2 that belongs to uid, as a manager of
// services would hand it over, and one in it for the process that is to use it.
// fd is of that one. ok is false where the machine has no such hierarchy.
func Delegate(uid int) (fd *os.File, remove func(), ok bool) {
	mount, ok := unified()
	if !ok {
		return nil, nil, false
	}
	outer := filepath.Join(mount, fmt.Sprintf("brig-test-%d", uid))
	inner := filepath.Join(outer, "session")
	remove = func() {
		_ = filepath.WalkDir(outer, func(dir string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				_ = os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0) // whatever a failed test left
			}
			return nil
		})
		dirs, _ := filepath.Glob(outer + "/*/*")
		more, _ := filepath.Glob(outer + "/*")
		for _, dir := range append(append(dirs, more...), outer) {
			_ = os.Remove(dir) // files there cannot be removed, and need not be
		}
	}
	for _, dir := range []string{outer, inner} {
		if err := os.Mkdir(dir, 0o755); err != nil && !os.IsExist(err) {
			return nil, nil, false
		}
		for _, name := range []string{".", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"} {
			if err := os.Chown(filepath.Join(dir, name), uid, uid); err != nil {
				remove()
				return nil, nil, false
			}
		}
		if dir == outer {
			enable(dir)
		}
	}
	fd, err := os.Open(inner)
	if err != nil {
		remove()
		return nil, nil, false
	}
	return fd, remove, true
}

// enable hands on what there is of the controllers that brig uses.
func enable(dir string) {
	raw, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return
	}
	for _, name := range strings.Fields(string(raw)) {
		if name == "memory" || name == "pids" || name == "cpu" {
			_ = os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+name), 0) // a test that needs it says so
		}
	}
}

// unified is where the hierarchy of version 2 is mounted.
func unified() (string, bool) {
	raw, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return "", false
	}
	for _, line := range bytes.Split(raw, []byte{'\n'}) {
		if f := strings.Fields(string(line)); len(f) > 3 && f[2] == "cgroup2" && !strings.HasPrefix(f[3], "ro") {
			return f[1], true
		}
	}
	return "", false
}
