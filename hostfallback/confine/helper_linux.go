package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"brig/hostfallback/internal/sys"
)

// maxPlan bounds a plan in bytes.
const maxPlan = 1 << 20

// Descriptors of the helper beside the runner's standard streams.
const (
	fdHelperPlan   = 3
	fdHelperStatus = 4
)

// order is a plan with what the supervisor found out before it forked.
type order struct {
	Plan       Plan       `json:"plan"`
	Namespace  Layer      `json:"namespace"`  // Applied: the helper was started in namespaces of its own
	Namespaces Namespaces `json:"namespaces"` // Applied: is to be tried, or was given with the start
	Outside    outside    `json:"outside"`
	Tasks      int        `json:"tasks"`   // tasks of this user outside of the instance, for the process limit
	Grouped    bool       `json:"grouped"` // the control group bounds processes, and counts what it refuses
	Turn       int        `json:"turn"`    // differs between instances, so that they use different processors
}

// confine is the helper: it never returns if everything works, because it has
// become the runner. The plan's steps apply to the calling thread; execve makes
// that thread the whole process, so the others need no treatment.
func confine() int {
	begin := time.Now()
	runtime.LockOSThread()
	status := os.NewFile(fdHelperStatus, "status")
	fail := func(f *Failure) int {
		_ = json.NewEncoder(status).Encode(Event{Failed: f}) // nobody is left to tell
		return 1
	}
	var o order
	raw, err := io.ReadAll(io.LimitReader(os.NewFile(fdHelperPlan, "plan"), maxPlan+1))
	if err == nil && len(raw) > maxPlan {
		err = errors.New("the plan is too long")
	}
	if err == nil {
		err = json.Unmarshal(raw, &o)
	}
	if err != nil {
		return fail(failure(StagePlan, err))
	}
	h := helper{plan: o.Plan, order: o}
	h.report.Took = []Took{{StagePlan, time.Since(begin)}}
	if f := h.apply(); f != nil {
		return fail(f)
	}
	if err := h.handover(); err != nil {
		return fail(failure(StageFiles, err))
	}
	report, err := json.Marshal(Event{Started: &Started{PID: os.Getpid(), Report: h.report}})
	if err != nil {
		return fail(failure(StageReport, err))
	}
	// Last, because this program's own memory counts until it is another one.
	if err := h.limitData(); err != nil {
		return fail(failure(StageLimits, err))
	}
	// The report is the last thing it says: close-on-exec ends the pipe exactly
	// when the runner starts.
	if _, err := status.Write(report); err != nil {
		return fail(failure(StageReport, err))
	}
	if h.plan.CheckOnly {
		return 0
	}
	err = syscall.Exec(h.plan.Command[0], h.plan.Command, h.plan.Env)
	return fail(failure(StageExec, err))
}

// helper applies a plan to its own thread, step by step, and notes the outcome.
type helper struct {
	plan   Plan
	order  order
	report Report
	survey *Survey  // what the machine has at the paths of the plan
	own    []string // file systems in memory that only this instance has
	open   *os.File // lists this process's descriptors; opened before that could be refused
	users  int      // of a zygote: the /proc where it writes the users of a session's namespace
}

// step is one that the helper takes, and its stage for a failure.
type step struct {
	stage string
	do    func() error
}

// apply runs the steps in the only order in which they work: mounts are refused
// inside a Landlock domain, capabilities are needed for mounts and not after
// them, and the filter comes last because it refuses what the others call.
func (h *helper) apply() *Failure {
	h.report.UID = os.Getuid()
	var uts unix.Utsname
	if err := unix.Uname(&uts); err == nil {
		h.report.Kernel = unix.ByteSliceToString(uts.Release[:])
	}
	steps := []step{
		{StageNamespace, h.namespace},
		{StageNetwork, h.network},
		{StageRoot, h.mounts},
		{StageProc, h.writableProc},
		{StageSession, h.session},
		{StageFiles, h.files},
		{StageLimits, h.limits},
		{StagePrivs, h.privileges},
		{StageLandlock, h.landlock},
		{StageSeccomp, h.seccomp},
	}
	if h.plan.without("nnp") {
		// The kernel takes a ruleset and a filter from who has no_new_privs or capabilities.
		at := slices.IndexFunc(steps, func(s step) bool { return s.stage == StagePrivs })
		steps = append(slices.Delete(steps, at, at+1), step{StagePrivs, h.privileges})
	}
	for _, s := range steps {
		begin := time.Now()
		if err := s.do(); err != nil {
			return failure(s.stage, err)
		}
		h.report.Took = append(h.report.Took, Took{s.stage, time.Since(begin)})
	}
	return nil
}

// session gives up what links the process to whoever started brig. The
// supervisor made it a session leader already, so there is no terminal.
func (h *helper) session() error {
	unix.Umask(0o077)
	if err := os.Chdir(h.plan.Scratch); err != nil {
		return err
	}
	// Until here the helper dies with the supervisor. So does the runner where its
	// death is that of everything below it. Elsewhere it must not: it is the second
	// switch. It sees its input end when brig notices, and kills everything below
	// itself, which a killed runner could not do.
	if h.report.Namespaces.Process.Applied && !h.plan.without("tree-kill") {
		return sys.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL))
	}
	return sys.Prctl(unix.PR_SET_PDEATHSIG, 0)
}

func (h *helper) privileges() error {
	if !h.plan.without("caps") {
		if err := sys.DropCapabilities(h.plan.kept()...); err != nil {
			return err
		}
	}
	if !h.plan.without("nnp") {
		if err := sys.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1); err != nil {
			return err
		}
	}
	got, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	if err != nil {
		return err
	}
	h.report.NoNewPrivs = got == 1
	held, err := sys.EffectiveCapabilities()
	if err != nil {
		return err
	}
	h.report.CapEff = fmt.Sprintf("%016x", held)
	return nil
}

// files keeps every descriptor but the runner's three from it.
func (h *helper) files() (err error) {
	if h.plan.without("fds") {
		// The helper's own pipes all the same: their ends say that the runner has started.
		unix.CloseOnExec(fdHelperPlan)
		unix.CloseOnExec(fdHelperStatus)
	} else if err := sys.CloseOnExec(3); err != nil {
		return err
	}
	if h.plan.Zygote != nil {
		if err := unix.Dup3(h.users, FDZygoteProc, 0); err != nil {
			return os.NewSyscallError("dup3", err)
		}
	}
	h.open, err = os.Open("/proc/self/fd")
	return err
}

// handover looks at what the runner gets from this process: which descriptors
// stay open when it starts, and the names of its environment.
func (h *helper) handover() error {
	names, err := h.open.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil {
			return err
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		switch {
		case errors.Is(err, unix.EBADF): // closed meanwhile
		case err != nil:
			return os.NewSyscallError("fcntl", err)
		case flags&unix.FD_CLOEXEC != 0:
			h.report.Closed++
		default:
			h.report.Kept = append(h.report.Kept, fd)
		}
	}
	slices.Sort(h.report.Kept)
	for _, entry := range h.plan.Env {
		name, _, _ := strings.Cut(entry, "=")
		h.report.Variables = append(h.report.Variables, name)
	}
	slices.Sort(h.report.Variables)
	return nil
}

// failure describes err; the errno travels as a number, because its text differs between systems.
// A step may have named its stage itself.
func failure(stage string, err error) *Failure {
	if named := (*Failure)(nil); errors.As(err, &named) {
		return named
	}
	f := &Failure{Stage: stage, Text: err.Error()}
	if errno := unix.Errno(0); errors.As(err, &errno) {
		f.Errno = int(errno)
	}
	return f
}
