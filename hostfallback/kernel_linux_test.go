package hostfallback

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"brig/hostfallback/confine"
	"brig/hostfallback/internal/sys"
)

// poorPrefix begins the file names under which this binary pretends to run on a
// kernel that lacks what the rest of the name says.
const poorPrefix = "poor-"

// poorKernel takes over a process that was started under such a name: it makes
// the calls fail and becomes the supervisor.
func poorKernel() {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil || len(os.Args) < 2 || os.Args[1] != confine.VerbSupervise {
		return
	}
	lacks, ok := strings.CutPrefix(filepath.Base(self), poorPrefix)
	if !ok {
		return
	}
	fmt.Fprintln(os.Stderr, "pretend to lack", lacks, becomePoor(filepath.Dir(self), lacks))
	os.Exit(3)
}

func becomePoor(dir, lacks string) error {
	runtime.LockOSThread()
	const load, equal, anySet, ret = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, unix.BPF_RET | unix.BPF_K
	refuse := func(errno unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(errno) }
	var filter []unix.SockFilter
	number := func(nr uint32, errno unix.Errno) {
		filter = append(filter, unix.SockFilter{Code: load, K: 0}, unix.SockFilter{Code: equal, Jf: 1, K: nr}, unix.SockFilter{Code: ret, K: refuse(errno)})
	}
	for _, what := range strings.Split(lacks, "+") {
		switch what {
		case "namespaces", "newpid", "newnet":
			flag := map[string]uint32{"namespaces": unix.CLONE_NEWUSER, "newpid": unix.CLONE_NEWPID, "newnet": unix.CLONE_NEWNET}[what]
			number(unix.SYS_CLONE3, unix.ENOSYS) // a filter cannot look into its arguments
			filter = append(filter,
				unix.SockFilter{Code: load, K: 0}, unix.SockFilter{Code: equal, Jf: 3, K: unix.SYS_CLONE},
				unix.SockFilter{Code: load, K: 16}, unix.SockFilter{Code: anySet, Jf: 1, K: flag}, unix.SockFilter{Code: ret, K: refuse(unix.EPERM)})
		case "group":
			number(unix.SYS_CLONE3, unix.ENOSYS) // the one call that starts a process in a group
		case "pivot":
			number(unix.SYS_PIVOT_ROOT, unix.EPERM)
		case "landlock":
			number(unix.SYS_LANDLOCK_CREATE_RULESET, unix.ENOSYS)
		case "seccomp":
			number(unix.SYS_SECCOMP, unix.ENOSYS)
		default:
			return fmt.Errorf("no rule for %q", what)
		}
	}
	filter = append(filter, unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW})
	if err := sys.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1); err != nil {
		return err
	}
	if err := sys.SetFilter(filter, false); err != nil {
		return err
	}
	// The copy with an ordinary name beside this one: the filter stays.
	return syscall.Exec(filepath.Join(dir, "rich"), os.Args, []string{})
}

// poorBackend is a backend on a kernel without something: parts joined by a plus.
func poorBackend(t *testing.T, lacks string) *Backend {
	t.Helper()
	dir := t.TempDir()
	binary, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"rich", poorPrefix + lacks} {
		if err := os.WriteFile(filepath.Join(dir, name), binary, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	b := testBackend(t)
	b.options.Executable = filepath.Join(dir, poorPrefix+lacks)
	return b
}
