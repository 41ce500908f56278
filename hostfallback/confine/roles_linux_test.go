package confine

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/landlock-lsm/go-landlock/landlock"
	"golang.org/x/sys/unix"

	"brig/hostfallback/internal/sys"
)

// role runs this process as something other than the tests.
//
//	parent           starts a supervisor like brig does, with the plan on its input, and waits
//	kernel R…        makes this thread's kernel one that answers as the rules say, then supervises
//
// A rule is "call=errno", "domains=N", or "namespaces=errno", or one for the flags
// of clone that it names, as in "newpid+newnet=errno", or "masked=0": a /proc with
// something covered in it, as containers have, in namespaces that launch makes.
func role(args []string) int {
	var err error
	switch args[0] {
	case "parent":
		err = roleParent()
	case "kernel":
		err = roleKernel(args[1:])
	}
	fmt.Fprintln(os.Stderr, "role:", err)
	return 3
}

func roleParent() error {
	var plan Plan
	if err := json.NewDecoder(os.Stdin).Decode(&plan); err != nil {
		return err
	}
	controlR, controlW, err := os.Pipe()
	if err != nil {
		return err
	}
	statusR, statusW, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd := exec.Command("/proc/self/exe", VerbSupervise)
	cmd.Env = []string{}
	if _, err := cmd.StdinPipe(); err != nil { // the runner's input ends with this process
		return err
	}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{controlR, statusW}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := json.NewEncoder(controlW).Encode(plan); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, statusR)
	return err
}

func roleKernel(rules []string) error {
	runtime.LockOSThread()
	if err := sys.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1); err != nil {
		return err
	}
	arch, ok := archOf(runtime.GOARCH)
	if !ok {
		return fmt.Errorf("no table for %s", runtime.GOARCH)
	}
	var a assembler
	a.load(offNumber)
	for _, rule := range rules {
		name, value, _ := strings.Cut(rule, "=")
		n, err := strconv.Atoi(value)
		if err != nil {
			return err
		}
		switch name {
		case "masked":
			if err := unix.Mount(os.DevNull, "/proc/key-users", "", unix.MS_BIND, ""); err != nil {
				return err
			}
			if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
				return err
			}
		case "domains":
			for range n {
				fd, flags, err := landlock.V1.NewRulesetFD(landlock.RWDirs("/"))
				if err != nil {
					return err
				}
				if err := sys.RestrictSelf(fd, flags); err != nil {
					return err
				}
			}
		case "namespaces", "newuser", "newpid", "newnet", "newpid+newnet":
			// A filter cannot look into the arguments of the newer call: those of
			// container engines say that there is none.
			a.anyOf([]uint32{callNumber(arch, "clone3")}, retErrno|uint32(unix.ENOSYS))
			a.inspect(callNumber(arch, "clone"), func(a *assembler) {
				a.load(offArg(0))
				a.ifThen(opAnySet, cloneFlag(name), retErrno|uint32(n))
				a.giveBack(retAllow)
			})
		default:
			a.anyOf([]uint32{callNumber(arch, name)}, retErrno|uint32(n))
		}
	}
	a.giveBack(retAllow)
	raw := make([]unix.SockFilter, len(a.code))
	for i, in := range a.code {
		raw[i] = unix.SockFilter{Code: in.Code, Jt: in.JT, Jf: in.JF, K: in.K}
	}
	if err := sys.SetFilter(raw, false); err != nil {
		return err
	}
	// The descriptors of a supervisor are where it expects them.
	for fd := range 2 {
		if _, err := unix.FcntlInt(uintptr(FDControl+fd), unix.F_SETFD, 0); err != nil {
			return err
		}
	}
	return syscall.Exec("/proc/self/exe", []string{"brig", VerbSupervise}, []string{})
}

func cloneFlag(names string) (flags uint32) {
	for name := range strings.SplitSeq(names, "+") {
		flags |= map[string]uint32{"newuser": unix.CLONE_NEWUSER, "newpid": unix.CLONE_NEWPID, "newnet": unix.CLONE_NEWNET, "namespaces": cloneNew}[name]
	}
	return flags
}

func callNumber(arch Arch, name string) uint32 {
	for _, c := range arch.calls() {
		if c.name == name {
			return c.nr
		}
	}
	panic("BUG: no call " + name)
}
