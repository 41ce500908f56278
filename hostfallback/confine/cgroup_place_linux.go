package confine

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// findParent chooses the group below which an instance's is made. A code without
// a parent says why there is none; a code beside a parent says that it hands no
// controllers on, so that a group below it has no limits.
//
// Of what is not brig's nothing is changed: no process is moved and no controller
// switched on in a group that others are in. So there are two places with limits:
// the own group, when brig alone is in it and it ends a delegation (a scope or
// service with Delegate=yes, a container), and otherwise the nearest group above
// that this user may use and whose owner already hands controllers on.
func findParent(l Limits) (string, Layer) {
	h, ok := standing()
	switch {
	case !ok && h.old:
		return "", Layer{Code: CodeCgroupV1}
	case !ok:
		return "", Layer{Code: CodeCgroupMissing}
	}
	usable := ownedUpwards(h)
	if len(usable) == 0 {
		err := usableGroup(h.own)
		l := Layer{Code: CodeCgroupDelegation, Errno: errnoName(err)}
		switch {
		case h.old:
			l.Code = CodeCgroupV1
		case h.readOnly, errors.Is(err, unix.EROFS):
			l.Code = CodeCgroupReadOnly
		}
		return "", l
	}
	own := usable[0]
	all, least := l.controllers()
	var why string
	for _, wanted := range [][]string{all, least} {
		if boundary(own, len(usable) == 1) {
			if why = divide(own, wanted); why == "" {
				return own, Layer{}
			}
		}
		for _, dir := range usable {
			if contains(words(filepath.Join(dir, "cgroup.subtree_control")), wanted) {
				return dir, Layer{}
			}
		}
	}
	switch {
	case h.old:
		why = CodeCgroupV1
	case why == "" && !contains(words(filepath.Join(own, "cgroup.controllers")), least):
		why = CodeCgroupControl
	case why == "":
		why = CodeCgroupOccupied
	}
	return own, Layer{Code: why}
}

// ownedUpwards are the own group and those above it, as far as this user may make
// groups there and put processes in.
func ownedUpwards(h hierarchy) []string {
	var usable []string
	for dir := h.own; ; dir = filepath.Dir(dir) {
		if usableGroup(dir) != nil {
			return usable
		}
		usable = append(usable, dir)
		if dir == h.mount || dir == "/" {
			return usable
		}
	}
}

// usableGroup: the kernel asks for the right to write the list of processes of
// the group that is common to where a process comes from and where it goes to.
func usableGroup(dir string) error {
	for _, path := range []string{dir, filepath.Join(dir, "cgroup.procs")} {
		if err := unix.Access(path, unix.W_OK); err != nil {
			return err
		}
	}
	return nil
}

// boundary says that the group was handed over with everything below it: its
// manager marked it so, or nothing above it is this user's.
func boundary(dir string, topmost bool) bool {
	for _, name := range []string{"user.delegate", "trusted.delegate"} {
		value := make([]byte, 8)
		if n, err := unix.Getxattr(dir, name, value); err == nil && string(value[:n]) == "1" {
			return true
		}
	}
	return topmost
}

// divide hands the wanted controllers of the own group on. A group that does so
// may hold no process, so brig and its supervisors go into one below, if nobody
// else is there. The answer is a code, empty when it worked.
func divide(own string, wanted []string) string {
	if !contains(words(filepath.Join(own, "cgroup.controllers")), wanted) {
		return CodeCgroupControl
	}
	if isRoot(own) {
		return CodeCgroupOccupied // the machine's own is not for brig to divide
	}
	enable := ""
	for _, controller := range wanted {
		enable += "+" + controller + " "
	}
	for range 5 { // brig may be starting other supervisors meanwhile
		if !moveAside(own) {
			return CodeCgroupOccupied
		}
		err := write(own, "cgroup.subtree_control", enable)
		if err == nil {
			return ""
		}
		if !errors.Is(err, unix.EBUSY) {
			return CodeCgroupRefused
		}
	}
	return CodeCgroupOccupied
}

// isRoot: the root of all groups has no type.
func isRoot(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "cgroup.type"))
	return errors.Is(err, os.ErrNotExist)
}

// moveAside moves brig and its supervisors into a group below their own, unless
// somebody else is in it. It is how a program is expected to divide a group that
// was delegated to it.
func moveAside(own string) bool {
	brig := os.Getppid()
	pids := pidsOf(own)
	for _, pid := range pids {
		if pid != os.Getpid() && pid != brig && !supervisorOf(brig, pid) {
			return false
		}
	}
	leaf := filepath.Join(own, cgroupLeaf)
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return false
	}
	for _, pid := range pids {
		if err := write(leaf, "cgroup.procs", strconv.Itoa(pid)); err != nil && !errors.Is(err, unix.ESRCH) {
			return false
		}
	}
	return true
}

// supervisorOf tells another supervisor of the same brig by its parent and its verb.
func supervisorOf(brig, pid int) bool {
	if statField(pid, 1) != strconv.Itoa(brig) {
		return false
	}
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	return err == nil && (bytes.HasPrefix(raw, []byte("brig\x00"+VerbSupervise+"\x00")) || bytes.HasPrefix(raw, []byte("brig\x00"+VerbZygote+"\x00")))
}

func contains(have, want []string) bool {
	for _, w := range want {
		if !slices.Contains(have, w) {
			return false
		}
	}
	return true
}
