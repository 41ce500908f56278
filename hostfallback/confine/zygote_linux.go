package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"brig/hostfallback/internal/sys"
)

// warmTimeout is for a zygote to answer beyond the time that its imports are given.
const warmTimeout = 10 * time.Second

// superviseZygote is the supervisor of a zygote and of all sessions that are
// forked from it. It is no part of either, as every supervisor: nothing that they
// write decides what it does with others.
func superviseZygote() int {
	runtime.LockOSThread() // the zygote's death signal is bound to this thread
	z := zygote{
		supervisor: supervisor{control: os.NewFile(FDControl, "control"), status: os.NewFile(FDStatus, "status"), ordered: make(chan struct{})},
		born:       make(map[int]chan unix.WaitStatus),
		ready:      make(chan Warmed, 1),
	}
	if err := z.run(); err != nil {
		var f *Failure
		if !errors.As(err, &f) {
			f = failure(StagePlan, err)
		}
		z.tell(Event{Failed: f})
		return 1
	}
	return 0
}

type zygote struct {
	supervisor
	pid    int
	report Report
	survey Survey // of what is granted
	view   []Step // of the file system, that the zygote took
	warmed Warmed
	ready  chan Warmed
	// What loses its parent outside of every process namespace comes to this process.
	subreaper bool

	mu       sync.Mutex                   // guards what follows, and writing to the zygote
	orders   int                          // the socket
	turn     int                          // of the last session
	born     map[int]chan unix.WaitStatus // by the number in the zygote's process namespace
	sessions sync.WaitGroup
}

func (z *zygote) run() error {
	if err := z.readPlan(); err != nil {
		return err
	}
	if z.plan.Zygote == nil {
		return failure(StagePlan, errors.New("the plan is none of a zygote"))
	}
	if err := sys.CloseOnExec(3); err != nil {
		return failure(StageFiles, err)
	}
	var err error
	if z.subreaper, err = z.adopt(); err != nil {
		return failure(StageSession, err)
	}
	if z.lock, err = takeLock(z.plan.Home); err != nil {
		return failure(StageLock, err)
	}
	defer z.tidy()
	z.group = makeCgroup(z.plan) // sessions are moved out of it into their own
	defer z.group.remove()
	go awaitOrder(z.control, z.ordered)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return failure(StageFork, err)
	}
	z.orders = pair[0]
	if err := unix.Dup3(pair[1], 0, 0); err != nil {
		return failure(StageFiles, err)
	}
	_ = unix.Close(pair[1]) // it is the zygote's descriptor 0
	h := helper{plan: z.plan}
	z.survey = h.look()
	z.survey.Process, z.survey.Bare = true, true
	z.view = z.plan.Root(z.survey)
	if z.pid, z.report, err = z.start(); err != nil {
		return err
	}
	if err := dropStreams(); err != nil {
		kill(z.pid)
		return failure(StageFiles, err)
	}
	reaped := reap(z.pid)
	ended := Ended{Cause: EndOrdered}
	err = z.warm()
	if err == nil {
		z.tell(Event{Started: &Started{PID: z.pid, Report: z.report, Warmed: &z.warmed, Watch: Watch{Subreaper: z.subreaper}}})
		if z.serve(reaped) {
			ended.Cause = EndSelf
		}
	}
	z.sweep(&ended, reaped) // sessions are below the zygote, and die with it
	z.sessions.Wait()
	if err != nil {
		return err
	}
	z.tell(Event{Ended: &ended})
	return nil
}

// warm has the zygote import what it is to have, and waits for that.
func (z *zygote) warm() error {
	order := z.plan.Zygote
	go z.listen()
	if order.Packages == nil {
		order.Packages = []string{}
	}
	if err := z.order(map[string]any{"warm": order}, nil); err != nil {
		return failure(StageFork, err)
	}
	patience := time.NewTimer(warmTimeout + time.Duration(order.Seconds*float64(time.Second)))
	defer patience.Stop()
	select {
	case w, ok := <-z.ready:
		if !ok {
			return failure(StageFork, errors.New("the zygote ended before it was warm"))
		}
		z.warmed = w
	case <-z.ordered:
		return failure(StageFork, errors.New("the end was ordered during the start"))
	case <-patience.C:
		return failure(StageFork, errors.New("the zygote did not get warm in time"))
	}
	// A fork has one thread. Others would be gone in it, with the locks that they hold.
	if z.warmed.Threads != 1 {
		return failure(StageFork, fmt.Errorf("packages that were imported in advance left %d threads", z.warmed.Threads))
	}
	return nil
}

// order sends a message to the zygote.
func (z *zygote) order(message any, fds []int) error {
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	return os.NewSyscallError("sendmsg", unix.Sendmsg(z.orders, text, rights, nil, unix.MSG_NOSIGNAL))
}

// listen reads what the zygote says until its end: that it is warm, and how
// processes ended. A status it makes up changes a word in the cause of an end.
func (z *zygote) listen() {
	defer close(z.ready)
	buffer := make([]byte, 16<<10)
	for told := false; ; {
		n, err := unix.Read(z.orders, buffer)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		var said struct {
			Ready  *Warmed `json:"ready"`
			PID    int     `json:"pid"`
			Status uint32  `json:"status"`
		}
		if err != nil || n == 0 || json.Unmarshal(buffer[:n], &said) != nil {
			return
		}
		if said.Ready != nil && !told {
			told = true
			z.ready <- *said.Ready
			continue
		}
		z.mu.Lock()
		if c, ok := z.born[said.PID]; ok {
			c <- unix.WaitStatus(said.Status)
			delete(z.born, said.PID)
		}
		z.mu.Unlock()
	}
}

// serve keeps sessions until the end is ordered, nobody asks for sessions any
// more and the last is over, or the zygote has ended by itself.
func (z *zygote) serve(r reaping) (died bool) {
	retired := make(chan struct{})
	go func() {
		defer close(retired)
		for {
			plan, files, err := asked()
			if err != nil {
				break
			}
			z.sessions.Go(func() { z.keep(plan, files) })
		}
		z.sessions.Wait()
	}()
	select {
	case <-z.ordered:
	case <-retired:
	case <-r.done:
		return true
	}
	return false
}

// asked receives the next request for a session. A request that is damaged is
// the end of all: it comes from brig, which does not send such.
func asked() (plan Plan, files []*os.File, err error) {
	buffer, space := make([]byte, MaxAsk), make([]byte, unix.CmsgSpace(4*AskDescriptors))
	var n, more, flags int
	for {
		n, more, flags, _, err = unix.Recvmsg(FDSessions, buffer, space, unix.MSG_CMSG_CLOEXEC)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil || n == 0 {
		return plan, nil, errors.Join(err, errors.New("nobody asks any more"))
	}
	messages, err := unix.ParseSocketControlMessage(space[:more])
	if err != nil {
		return plan, nil, err
	}
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			return plan, nil, err
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "session"))
		}
	}
	if flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 || len(files) != AskDescriptors {
		return plan, nil, errors.New("a damaged request")
	}
	return plan, files, json.Unmarshal(buffer[:n], &plan)
}
