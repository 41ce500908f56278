package confine

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"brig/hostfallback/internal/sys"
)

const (
	startTimeout = 10 * time.Second // for the helper to become the runner
	sweepTimeout = 4 * time.Second  // for killed processes to be gone

	// runnerGrace is how long the runner may live on in a sweep while there is anybody below it.
	runnerGrace = 100 * time.Millisecond
)

// supervise is the supervisor: it starts one instance and outlives it. It stays
// on the main thread, whose end is what the helper's death signal is bound to.
func supervise() int {
	runtime.LockOSThread()
	s := supervisor{
		control: os.NewFile(FDControl, "control"),
		status:  os.NewFile(FDStatus, "status"),
		ordered: make(chan struct{}),
	}
	if err := s.run(); err != nil {
		var f *Failure
		if !errors.As(err, &f) {
			f = failure(StagePlan, err)
		}
		s.tell(Event{Failed: f})
		return 1
	}
	return 0
}

type supervisor struct {
	control, status *os.File
	plan            Plan
	lock            *os.File
	alone           bool          // the runner's end is that of everything below it
	members         func() []int  // the processes of the instance; nil: whatever is below this one
	group           *cgroup       // of the instance; nil does nothing
	ordered         chan struct{} // closed when the control pipe ends or a signal asks for the end
}

// tell writes one event. Nobody may be listening any more: the control pipe says so as well.
func (s *supervisor) tell(e Event) { _ = json.NewEncoder(s.status).Encode(e) }

func (s *supervisor) readPlan() error {
	line, err := bufio.NewReader(io.LimitReader(s.control, maxPlan)).ReadBytes('\n')
	if err != nil {
		return failure(StagePlan, fmt.Errorf("read the plan: %w", err))
	}
	if err := json.Unmarshal(line, &s.plan); err != nil {
		return failure(StagePlan, err)
	}
	return nil
}

func (s *supervisor) run() error {
	if err := s.readPlan(); err != nil {
		return err
	}
	if s.plan.without("fds") {
		unix.CloseOnExec(FDControl)
		unix.CloseOnExec(FDStatus)
	} else if err := sys.CloseOnExec(3); err != nil {
		return failure(StageFiles, err)
	}
	subreaper, err := s.adopt()
	if err != nil {
		return failure(StageSession, err)
	}
	if s.lock, err = takeLock(s.plan.Home); err != nil {
		return failure(StageLock, err)
	}
	defer s.tidy()
	if !s.plan.without("cgroup") && !s.plan.without("tree-kill") {
		s.group = makeCgroup(s.plan)
	}
	defer s.group.remove()
	go awaitOrder(s.control, s.ordered)

	pid, report, err := s.start()
	if err != nil {
		return err
	}
	report.Cgroup = s.group.told()
	s.alone = report.Namespaces.Process.Applied
	if s.plan.without("watch") {
		s.plan.Limits = Limits{}
	}
	limits := s.plan.Limits
	started := Event{Started: &Started{PID: pid, Report: report, Watch: Watch{
		Subreaper: subreaper, Memory: limits.Memory, Processes: limits.Processes, Disk: limits.Disk,
	}}}
	if s.plan.CheckOnly {
		s.tell(started)
		return nil
	}
	if err := dropStreams(); err != nil {
		kill(pid)
		return failure(StageFiles, err)
	}
	reaped := reap(pid)
	s.tell(started)
	ended := s.watch(reaped)
	s.group.explain(&ended)
	if !s.plan.without("tree-kill") {
		s.sweep(&ended, reaped)
		ended.Left = append(ended.Left, s.group.remove()...)
	}
	s.tell(Event{Ended: &ended})
	return nil
}

// adopt makes whatever loses its parent below a child of this process, where it can be found.
func (s *supervisor) adopt() (bool, error) {
	if s.plan.without("tree-kill") {
		return false, nil
	}
	if err := sys.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1); err != nil {
		return false, err
	}
	subreaper, err := sys.Subreaper()
	if err == nil && !subreaper {
		err = errors.New("orphans do not come to the supervisor")
	}
	return subreaper, err
}

// tidy removes the instance's directory, also when brig cannot any more. What
// stays is found by the next sweep, which has somebody to report to.
func (s *supervisor) tidy() { _ = RemoveTree(s.plan.Home) }

// start brings the helper up, in namespaces of its own if the plan asks for
// them and the kernel gives them. Doing without them, or without one part, is no
// silent retreat: the report carries the reason, and the parent judges it.
func (s *supervisor) start() (int, Report, error) {
	o := order{Plan: s.plan, Turn: os.Getpid(), Grouped: s.group.told().Processes > 0, Namespace: Layer{Code: CodeNotAsked}}
	if s.plan.Mode == ModeOff {
		o.Namespace.Code = CodeOff
	} else if s.plan.Namespace && !s.plan.without("namespaces") {
		pid, report, err := s.descend(&o)
		var f *Failure
		if err == nil || !errors.As(err, &f) || f.Stage != StageNamespace {
			return pid, report, err
		}
		o.Namespace, o.Namespaces = refusedNamespace(unix.Errno(f.Errno), pid != 0), Namespaces{}
	}
	o.Tasks = userTasks(os.Getuid())
	return s.helper(&o)
}

// descend starts the helper in namespaces with every part that the plan wants,
// and again without each part that is refused.
func (s *supervisor) descend(o *order) (int, Report, error) {
	var err error
	if o.Outside, err = outsideOf(); err != nil {
		return 0, Report{}, failure(StageSession, err)
	}
	o.Namespace, o.Namespaces = Layer{Applied: true}, s.plan.asked()
	for name, part := range map[string]*Layer{"root": &o.Namespaces.Root, "pidns": &o.Namespaces.Process, "netns": &o.Namespaces.Network} {
		if s.plan.without(name) {
			*part = Layer{Code: CodeNotAsked}
		}
	}
	for {
		pid, report, err := s.helper(o)
		var f *Failure
		if err == nil || !errors.As(err, &f) {
			return pid, report, err
		}
		less, ok := o.Namespaces.giveUp(f, errnoName(unix.Errno(f.Errno)))
		if !ok {
			return pid, report, err
		}
		o.Namespaces = less
	}
}

// helper forks the helper and waits until it has become the runner. A pid
// beside an error is that of a helper that had been started.
func (s *supervisor) helper(o *order) (int, Report, error) {
	planR, planW, err := os.Pipe()
	if err != nil {
		return 0, Report{}, failure(StageFork, err)
	}
	defer func() { _ = planR.Close(); _ = planW.Close() }()
	statusR, statusW, err := os.Pipe()
	if err != nil {
		return 0, Report{}, failure(StageFork, err)
	}
	defer func() { _ = statusR.Close(); _ = statusW.Close() }()
	begin := time.Now()
	pid, err := s.fork(o, planR, statusW)
	forked := Took{StageFork, time.Since(begin)}
	if err != nil {
		return 0, Report{}, err
	}
	if err := s.group.entered(pid); err != nil {
		kill(pid)
		return pid, Report{}, failure(StageCgroup, err)
	}
	// Only now: whoever writes the user mapping must be able to open the child's
	// files, and a child inherits this from its parent.
	if err := sys.Dumpable(false); err != nil {
		kill(pid)
		return pid, Report{}, failure(StageSession, err)
	}
	_, _ = planR.Close(), statusW.Close()
	started, err := s.converse(*o, planW, statusR)
	if err == nil {
		started.Report.Took = slices.Concat([]Took{forked}, started.Report.Took, []Took{{StageExec, time.Since(begin)}})
	}
	if err == nil && !s.plan.CheckOnly {
		return pid, started.Report, nil
	}
	kill(pid)
	if err != nil {
		return pid, Report{}, err
	}
	return pid, started.Report, nil
}

// converse sends the order and reads what the helper says until its end of the
// pipe closes, which execve does.
func (s *supervisor) converse(o order, plan io.WriteCloser, status io.Reader) (*Started, error) {
	answer := make(chan []byte, 1)
	go func() {
		raw, _ := io.ReadAll(io.LimitReader(status, maxPlan)) // what is missing shows as a bad event
		answer <- raw
	}()
	if err := json.NewEncoder(plan).Encode(o); err != nil {
		return nil, failure(StageFork, fmt.Errorf("send the plan to the helper: %w", err))
	}
	if err := plan.Close(); err != nil {
		return nil, failure(StageFork, err)
	}
	deadline := time.NewTimer(startTimeout)
	defer deadline.Stop()
	select {
	case raw := <-answer:
		return verdict(raw)
	case <-s.ordered:
		return nil, failure(StageFork, errors.New("the end was ordered during the start"))
	case <-deadline.C:
		return nil, failure(StageFork, errors.New("the helper did not become the runner in time"))
	}
}

// verdict reads the helper's events: a start counts only if nothing failed after it.
func verdict(raw []byte) (*Started, error) {
	var started *Started
	for d := json.NewDecoder(bytes.NewReader(raw)); ; {
		var e Event
		err := d.Decode(&e)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, failure(StageReport, fmt.Errorf("read the helper's report: %w", err))
		}
		if e.Failed != nil {
			return nil, e.Failed
		}
		started = e.Started
	}
	if started == nil {
		return nil, failure(StageReport, errors.New("the helper ended without a report"))
	}
	return started, nil
}

// dropStreams lets go of the runner's pipes, so that their ends mean the runner's end.
func dropStreams() error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { _ = null.Close() }() // it is duplicated
	for fd := range 3 {
		if err := unix.Dup3(int(null.Fd()), fd, 0); err != nil {
			return err
		}
	}
	return nil
}

// kill ends a helper that has not become the runner, and takes it away.
func kill(pid int) {
	_ = unix.Kill(pid, unix.SIGKILL)
	for {
		if _, err := unix.Wait4(pid, nil, 0, nil); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
