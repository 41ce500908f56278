//go:build darwin || brig_keeper

package confine

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Descriptors of the helper beside the runner's standard streams.
const (
	fdErrand    = 3
	fdErrandSay = 4
)

// errand is a plan with what the supervisor found out before it forked.
type errand struct {
	Plan    Plan     `json:"plan"`
	Command []string `json:"command"` // what the helper becomes
	Others  int      `json:"others"`  // processes of this user outside of the instance
}

// limit is one that the kernel keeps.
type limit struct {
	name     string
	resource int
}

// assist is the helper: it never returns if everything works, because it has become
// the program that applies the profile, and that becomes the runner.
func assist(m host) int {
	status := os.NewFile(fdErrandSay, "status")
	fail := func(stage string, err error) int {
		_ = json.NewEncoder(status).Encode(Event{Failed: failed(stage, err)}) // nobody is left to tell
		return 1
	}
	var o errand
	raw, err := io.ReadAll(io.LimitReader(os.NewFile(fdErrand, "plan"), 4*keeperPlan))
	if err == nil {
		err = json.Unmarshal(raw, &o)
	}
	if err != nil {
		return fail(StagePlan, err)
	}
	unix.Umask(0o077)
	if err := os.Chdir(o.Plan.Scratch); err != nil {
		return fail(StageSession, err)
	}
	if o.Plan.without("fds") {
		// The helper's own pipes all the same: their ends say that the runner has started.
		unix.CloseOnExec(fdErrand)
		unix.CloseOnExec(fdErrandSay)
	} else if err := closeOnExec(3); err != nil {
		return fail(StageFiles, err)
	}
	report := Report{UID: os.Getuid(), Limits: map[string]uint64{}}
	if !o.Plan.without("rlimits") {
		for _, l := range m.limits() {
			if err := o.bound(l, report.Limits); err != nil {
				return fail(StageLimits, err)
			}
		}
	}
	if report.Kept, report.Closed, err = descriptors(); err != nil {
		return fail(StageFiles, err)
	}
	for _, entry := range o.Plan.Env {
		name, _, _ := strings.Cut(entry, "=")
		report.Variables = append(report.Variables, name)
	}
	slices.Sort(report.Variables)
	// The report is the last thing it says: close-on-exec ends the pipe exactly
	// when the next program starts.
	if err := json.NewEncoder(status).Encode(Event{Started: &Started{PID: os.Getpid(), Report: report}}); err != nil {
		return fail(StageReport, err)
	}
	if o.Plan.CheckOnly {
		return 0
	}
	return fail(StageExec, syscall.Exec(o.Command[0], o.Command, o.Plan.Env))
}

// bound sets one limit and reads back what is in force. One that is tighter
// already stays as it is.
func (o errand) bound(l limit, set map[string]uint64) error {
	var want uint64
	switch l.name {
	case "core":
	case "nofile":
		want = uint64(o.Plan.Limits.OpenFiles)
	case "fsize":
		want = uint64(o.Plan.Limits.FileSize)
	case "nproc":
		// The kernel counts all processes of the user.
		if o.Plan.Limits.Processes > 0 {
			want = uint64(o.Plan.Limits.Processes + o.Others)
		}
	}
	if want == 0 && l.name != "core" {
		return nil
	}
	var now unix.Rlimit
	if err := unix.Getrlimit(l.resource, &now); err != nil {
		return os.NewSyscallError("getrlimit", err)
	}
	want = min(want, now.Max)
	if err := unix.Setrlimit(l.resource, &unix.Rlimit{Cur: want, Max: want}); err != nil {
		return os.NewSyscallError("setrlimit", err)
	}
	if err := unix.Getrlimit(l.resource, &now); err != nil {
		return os.NewSyscallError("getrlimit", err)
	}
	set[l.name] = now.Max
	return nil
}

// openDescriptors lists those of this process.
func openDescriptors() ([]int, error) {
	dir, err := os.Open("/dev/fd")
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }() // opened for reading
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var out []int
	for _, name := range names {
		if fd, err := strconv.Atoi(name); err == nil && fd != int(dir.Fd()) {
			out = append(out, fd)
		}
	}
	return out, nil
}

// closeOnExec marks every open descriptor from first on. Those that Go makes meanwhile are so from their beginning.
func closeOnExec(first int) error {
	open, err := openDescriptors()
	if err != nil {
		return err
	}
	for _, fd := range open {
		if fd < first {
			continue
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC); err != nil && !errors.Is(err, unix.EBADF) {
			return os.NewSyscallError("fcntl", err)
		}
	}
	return nil
}

// descriptors looks at which of them stay open when the next program starts.
func descriptors() (kept []int, closed int, err error) {
	open, err := openDescriptors()
	if err != nil {
		return nil, 0, err
	}
	for _, fd := range open {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		switch {
		case errors.Is(err, unix.EBADF): // closed meanwhile
		case err != nil:
			return nil, 0, os.NewSyscallError("fcntl", err)
		case flags&unix.FD_CLOEXEC != 0:
			closed++
		default:
			kept = append(kept, fd)
		}
	}
	slices.Sort(kept)
	return kept, closed, nil
}
