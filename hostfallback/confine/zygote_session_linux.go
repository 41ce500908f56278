package confine

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// findTimeout is how long the first process of a session may be missed.
const findTimeout = 2 * time.Second

// statusGrace is how long the zygote may take to say how a session ended.
const statusGrace = time.Second

// keep has a session forked, and does for it what a supervisor does for the one
// instance that it has: it watches it, ends it and removes its directory.
func (z *zygote) keep(plan Plan, files []*os.File) {
	s := &supervisor{control: files[3], status: files[4], plan: plan, ordered: make(chan struct{})}
	defer func() {
		for _, f := range files {
			_ = f.Close() // pipes; what was to be said was said
		}
	}()
	go func() {
		defer close(s.ordered)
		_, _ = io.Copy(io.Discard, s.control) // its end is the message
	}()
	var err error
	if s.lock, err = takeLock(s.plan.Home); err != nil {
		s.tell(Event{Failed: failure(StageLock, err)})
		return
	}
	defer func() {
		s.tidy()
		_ = s.lock.Close() // it is gone
	}()
	// A group without limits would only end the session, and the end of its first process does so as well.
	if s.group = (&cgroup{report: Cgroup{Layer: z.group.told().Layer}}); s.group.report.Applied {
		s.group = makeCgroup(plan)
	}
	defer s.group.remove()
	born, report, err := z.fork(s, files[:3])
	if err != nil {
		var f *Failure
		if !errors.As(err, &f) {
			f = failure(StageFork, err)
		}
		s.tell(Event{Failed: f})
		return
	}
	for _, f := range files[:3] {
		_ = f.Close() // so that their ends mean the runner's end
	}
	s.members = born.tree
	limits := plan.Limits
	r := born.reap(z)
	s.tell(Event{Started: &Started{PID: born.pid, Report: report, Watch: Watch{
		Subreaper: z.subreaper, Memory: limits.Memory, Processes: limits.Processes, Disk: limits.Disk,
	}}})
	ended := s.watch(r)
	s.group.explain(&ended)
	born.sweep(&ended, r)
	ended.Left = append(ended.Left, s.group.remove()...)
	s.tell(Event{Ended: &ended})
}

// newborn is the first process of a session.
type newborn struct {
	pid    int                  // here
	inner  int                  // in the zygote's process namespace
	handle int                  // names it for good
	status chan unix.WaitStatus // what the zygote says of its end
}

// fork has the zygote make a session, and checks from outside what it says of itself.
func (z *zygote) fork(s *supervisor, streams []*os.File) (newborn, Report, error) {
	z.mu.Lock()
	z.turn++
	turn := z.turn
	z.mu.Unlock()
	order, err := z.render(s.plan, turn)
	if err != nil {
		return newborn{}, Report{}, err
	}
	reportR, reportW, err := os.Pipe()
	if err != nil {
		return newborn{}, Report{}, err
	}
	defer func() { _ = reportR.Close() }() // read to its end
	goR, goW, err := os.Pipe()
	if err != nil {
		_ = reportW.Close() // nothing was sent
		return newborn{}, Report{}, err
	}
	defer func() { _ = goW.Close() }() // without a word it is the order to end
	fds := []int{int(streams[0].Fd()), int(streams[1].Fd()), int(streams[2].Fd()), int(reportW.Fd()), int(goR.Fd())}
	err = z.order(order, fds)
	_, _ = reportW.Close(), goR.Close() // the zygote has its own
	if err != nil {
		return newborn{}, Report{}, err
	}
	if err := reportR.SetReadDeadline(time.Now().Add(startTimeout)); err != nil {
		return newborn{}, Report{}, err
	}
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-s.ordered:
			_ = reportR.SetReadDeadline(time.Now()) // nobody wants it any more
		case <-stop:
		}
	}()
	lines := bufio.NewReader(io.LimitReader(reportR, maxPlan))
	var first struct {
		PID    int      `json:"pid"`
		Failed *Failure `json:"failed"`
	}
	if err := next(lines, &first); err != nil {
		return newborn{}, Report{}, err
	}
	if first.Failed != nil {
		return newborn{}, Report{}, first.Failed
	}
	var e Event
	n, err := z.find(first.PID)
	if err != nil {
		if next(lines, &e) == nil && e.Failed != nil { // it has ended already
			err = e.Failed
		}
		return newborn{}, Report{}, err
	}
	s.group.adopt(n.pid) // before it has done anything
	if err = next(lines, &e); err == nil && e.Failed != nil {
		err = e.Failed
	} else if err == nil && e.Started == nil {
		err = errors.New("the session said neither that it started nor that it did not")
	}
	var report Report
	if err == nil {
		report = e.Started.Report
		report.Cgroup = s.group.told()
		report.Forked, err = z.look(n, s.plan.Policy, report)
	}
	if err == nil {
		_, err = goW.Write([]byte("1"))
	}
	if err != nil {
		n.end()
		return newborn{}, Report{}, err
	}
	return n, report, nil
}

// adopt moves a process into the group that was born elsewhere. Where the kernel
// does not let it, there is no group, and the report says so.
func (c *cgroup) adopt(pid int) {
	if c == nil || c.dir == "" {
		return
	}
	err := write(c.dir, "cgroup.procs", strconv.Itoa(pid))
	if err == nil {
		err = c.entered(pid)
	}
	if err != nil {
		c.refused(err)
	}
}

func next(lines *bufio.Reader, to any) error {
	line, err := lines.ReadBytes('\n')
	if errors.Is(err, io.EOF) {
		return errors.New("the session ended before it was one")
	}
	if err != nil {
		return fmt.Errorf("wait for the session: %w", err)
	}
	return json.Unmarshal(line, to)
}

// find looks for the process that the zygote knows by this number, and takes
// hold of it. A number that is not of a new child of the zygote is none.
func (z *zygote) find(inner int) (newborn, error) {
	status := make(chan unix.WaitStatus, 1)
	z.mu.Lock()
	_, taken := z.born[inner]
	if !taken {
		z.born[inner] = status
	}
	z.mu.Unlock()
	if taken {
		return newborn{}, errors.New("the zygote named the process of another session")
	}
	// It becomes the zygote's child when the process between ends, and may be missed while that happens.
	for deadline := time.Now().Add(findTimeout); time.Now().Before(deadline); time.Sleep(200 * time.Microsecond) {
		if pid, handle, ok := firstOf(descendants(z.pid), inner); ok {
			return newborn{pid: pid, inner: inner, handle: handle, status: status}, nil
		}
	}
	z.forget(inner)
	return newborn{}, errors.New("the zygote named a process that is not there")
}

// firstOf looks among processes for the first one of a process namespace, by its
// number in the namespace around that.
func firstOf(pids []int, inner int) (pid, handle int, ok bool) {
	want := []string{strconv.Itoa(inner), "1"}
	for _, pid := range pids {
		if handle, err := unix.PidfdOpen(pid, 0); err == nil {
			// Only now: as long as the handle says that it lives, the number is its own.
			if ids := namespaceIDs(pid); len(ids) > 2 && slices.Equal(ids[len(ids)-2:], want) {
				return pid, handle, true
			}
			_ = unix.Close(handle) // of another
		}
	}
	return 0, 0, false
}

func (z *zygote) forget(inner int) {
	z.mu.Lock()
	delete(z.born, inner)
	z.mu.Unlock()
}

// namespaceIDs are the numbers of a process, in the process namespaces from here inwards.
func namespaceIDs(pid int) []string {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return nil
	}
	_, rest, ok := bytes.Cut(raw, []byte("\nNSpid:"))
	if !ok {
		return nil
	}
	line, _, _ := strings.Cut(string(rest), "\n")
	return strings.Fields(line)
}

// end kills a session that did not become one, and with it all that it started.
func (n newborn) end() {
	_ = unix.PidfdSendSignal(n.handle, unix.SIGKILL, nil, 0) // it may be gone
	n.wait()
	_ = unix.Close(n.handle)
}

// tree lists the processes of the session, or none when it is over.
func (n newborn) tree() []int {
	fds := []unix.PollFd{{Fd: int32(n.handle), Events: unix.POLLIN}}
	if ready, err := unix.Poll(fds, 0); ready > 0 || err != nil {
		return nil
	}
	return append([]int{n.pid}, descendants(n.pid)...)
}

// sweep kills the session. The end of its first process is that of everything in
// its process namespace, and the kernel lets that one end last.
func (n newborn) sweep(ended *Ended, r reaping) {
	begin := time.Now()
	ended.Killed = len(n.tree())
	_ = unix.PidfdSendSignal(n.handle, unix.SIGKILL, nil, 0) // it may have ended
	deadline := time.NewTimer(sweepTimeout)
	defer deadline.Stop()
	select {
	case <-r.done:
		_ = unix.Close(n.handle)
		select {
		case e := <-r.runner:
			ended.setExit(e.status)
		default: // it was noted before
		}
	case <-deadline.C:
		ended.Left = n.tree()
	}
	ended.Took = time.Since(begin)
}

// wait returns when the process and everything in its process namespace is dead.
func (n newborn) wait() {
	fds := []unix.PollFd{{Fd: int32(n.handle), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(fds, -1); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// reap tells of the end of a session as it is told of a child's.
func (n newborn) reap(z *zygote) reaping {
	r := reaping{pid: n.pid, runner: make(chan exit, 1), done: make(chan struct{})}
	go func() {
		defer close(r.done)
		n.wait()
		status := unix.WaitStatus(0xffff) // neither exited nor killed: nobody knows
		select {
		case status = <-n.status:
		case <-time.After(statusGrace):
			z.forget(n.inner)
		}
		r.runner <- exit{status}
	}()
	return r
}
