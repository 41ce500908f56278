package ordinary

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// How a test process is to stand among the control groups of version 2; the
// default is that of a program in the session of a user: a group of its own below
// one that was handed over with its controllers.
const (
	groupNone     = "none"     // where root is
	groupAlone    = "alone"    // alone in a group that was handed over
	groupOccupied = "occupied" // in such a group, with another program in it
	groupNoCPU    = "nocpu"    // as by default, but without the controller of processors
)

// delegate makes control groups that belong to uid, as a manager of services would
// hand them over. fd is of the one for the process that is to use it. ok is false
// where the machine has no such hierarchy, or none is wanted.
func delegate(uid int, how string) (fd *os.File, remove func(), ok bool) {
	mount, ok := unified()
	if !ok || how == groupNone {
		return nil, nil, false
	}
	outer := filepath.Join(mount, fmt.Sprintf("brig-test-%d", uid))
	inner := filepath.Join(outer, "session")
	dirs := []string{outer, inner}
	if how != "" && how != groupNoCPU {
		inner, dirs = outer, dirs[:1]
	}
	remove = func() { removeGroups(outer) }
	for _, dir := range dirs {
		if err := handOver(dir, uid); err != nil {
			remove()
			return nil, nil, false
		}
		if dir != inner {
			enable(dir, how == groupNoCPU)
		}
	}
	fd, err := os.Open(inner)
	if err != nil {
		remove()
		return nil, nil, false
	}
	if how == groupOccupied {
		other := exec.Command("/bin/sleep", "600")
		other.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(fd.Fd()), Pdeathsig: syscall.SIGKILL}
		if err := other.Start(); err != nil {
			remove()
			return nil, nil, false
		}
		remove = func() { removeGroups(outer); _ = other.Wait() }
	}
	return fd, remove, true
}

func handOver(dir string, uid int) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !os.IsExist(err) {
		return err
	}
	for _, name := range []string{".", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"} {
		if err := os.Chown(filepath.Join(dir, name), uid, uid); err != nil {
			return err
		}
	}
	return nil
}

// removeGroups removes a group with all below it and whatever a failed test left there.
func removeGroups(outer string) {
	_ = os.WriteFile(filepath.Join(outer, "cgroup.kill"), []byte("1"), 0)
	var dirs []string
	_ = filepath.WalkDir(outer, func(dir string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, dir)
		}
		return nil
	})
	for range 50 { // killed processes take a moment
		for _, dir := range slices.Backward(dirs) {
			_ = os.Remove(dir) // files there cannot be removed, and need not be
		}
		if _, err := os.Stat(outer); err != nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// enable hands on what there is of the controllers that brig uses.
func enable(dir string, noCPU bool) {
	raw, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return
	}
	for _, name := range strings.Fields(string(raw)) {
		if name == "memory" || name == "pids" || name == "cpu" && !noCPU {
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
