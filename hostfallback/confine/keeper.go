//go:build darwin || brig_keeper

package confine

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The supervisor where the kernel has neither subreapers nor namespaces, which is
// macOS. What it needs of the system is behind the interface host, so that the
// tests can let it work on another one.

const (
	keeperStart = 15 * time.Second // for the helper to become the runner
	keeperSweep = 4 * time.Second  // for killed processes to be gone
	keeperPlan  = 1 << 20          // bytes
)

// host is what keeper and helper ask of the operating system.
type host interface {
	sandboxExec() string // the program that applies profiles
	// helper is what is started as the helper.
	helper() (program string, args []string, err error)
	table() []relative // the processes of this user
	// marked tells whether a process was started with an entry in its environment.
	marked(pid int, entry string) bool
	// inside tells whether the profile of a process lets it read one file and not
	// the other. known is false where the system does not answer.
	inside(pid int, may, mayNot string) (is, known bool)
	// usage is what a process holds of memory, and its threads.
	usage(pid int) (bytes int64, threads int)
	measure() string // what usage means by memory
	// forks tells when one of the processes that were passed to attend has made another.
	forks() (tell <-chan struct{}, attend func(pid int))
	become(fd, as int) error // makes a descriptor another one
	release() string         // of the kernel
	limits() []limit         // what the helper bounds, see there
}

type keeper struct {
	machine         host
	control, status *os.File
	plan            Plan
	lock            *os.File
	ordered         chan struct{} // closed when the control pipe ends or a signal asks for the end
	profile         string
	params          []Param
	seatbelt        Seatbelt
	family          *family
	tell            <-chan struct{}
	attend          func(int)
}

// keep is the supervisor: it starts one instance and outlives it.
func keep(m host) int {
	k := keeper{
		machine: m, control: os.NewFile(FDControl, "control"), status: os.NewFile(FDStatus, "status"),
		ordered: make(chan struct{}),
	}
	if err := k.run(); err != nil {
		var f *Failure
		if !errors.As(err, &f) {
			f = failed(StagePlan, err)
		}
		k.say(Event{Failed: f})
		return 1
	}
	return 0
}

// say writes one event. Nobody may be listening any more: the control pipe says so as well.
func (k *keeper) say(e Event) { _ = json.NewEncoder(k.status).Encode(e) }

func (k *keeper) run() error {
	line, err := bufio.NewReader(io.LimitReader(k.control, keeperPlan)).ReadBytes('\n')
	if err != nil {
		return failed(StagePlan, fmt.Errorf("read the plan: %w", err))
	}
	if err := json.Unmarshal(line, &k.plan); err != nil {
		return failed(StagePlan, err)
	}
	if err := closeOnExec(3); err != nil {
		return failed(StageFiles, err)
	}
	if k.lock, err = takeLock(k.plan.Home); err != nil {
		return failed(StageLock, err)
	}
	defer k.tidy()
	go awaitOrder(k.control, k.ordered)

	command, err := k.confinement()
	if err != nil {
		return failed(StageSeatbelt, err)
	}
	pid, report, err := k.helper(command)
	if err != nil {
		return err
	}
	limits := k.plan.Limits
	started := Started{PID: pid, Watch: Watch{Memory: limits.Memory, Processes: limits.Processes, Disk: limits.Disk}}
	if k.plan.CheckOnly {
		k.foretell()
		started.Report = k.report(report)
		k.say(Event{Started: &started})
		return nil
	}
	if err := k.dropStreams(); err != nil {
		end(pid)
		return failed(StageFiles, err)
	}
	k.know(pid)
	started.Report = k.report(report)
	runner := await(pid)
	k.say(Event{Started: &started})
	ended := k.watch(runner)
	if !k.plan.without("tree-kill") {
		k.sweep(&ended, runner)
	}
	k.say(Event{Ended: &ended})
	return nil
}

// report adds what the supervisor knows to what the helper did.
func (k *keeper) report(r Report) Report {
	k.seatbelt.Measure = k.machine.measure()
	r.Seatbelt, r.Kernel = &k.seatbelt, k.machine.release()
	return r
}

// tidy removes the instance's directory, also when brig cannot any more. What
// stays is found by the next sweep, which has somebody to report to.
func (k *keeper) tidy() { _ = RemoveTree(k.plan.Home) }

// helper forks the helper and waits until it has started the command.
func (k *keeper) helper(command []string) (int, Report, error) {
	program, args, err := k.machine.helper()
	if err != nil {
		return 0, Report{}, failed(StageFork, err)
	}
	planR, planW, err := os.Pipe()
	if err != nil {
		return 0, Report{}, failed(StageFork, err)
	}
	defer func() { _ = planR.Close(); _ = planW.Close() }()
	statusR, statusW, err := os.Pipe()
	if err != nil {
		return 0, Report{}, failed(StageFork, err)
	}
	defer func() { _ = statusR.Close(); _ = statusW.Close() }()
	o := errand{Plan: k.plan, Command: command, Others: len(k.machine.table())}
	pid, err := syscall.ForkExec(program, args, &syscall.ProcAttr{
		Env:   []string{Marker + "=" + k.plan.Token},
		Files: []uintptr{0, 1, 2, planR.Fd(), statusW.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return 0, Report{}, failed(StageFork, err)
	}
	_, _ = planR.Close(), statusW.Close()
	report, err := k.converse(o, planW, statusR)
	if err != nil || k.plan.CheckOnly {
		end(pid)
	}
	return pid, report, err
}

// converse sends the errand and reads what the helper says until its end of the
// pipe closes, which execve does.
func (k *keeper) converse(o errand, plan io.WriteCloser, status io.Reader) (Report, error) {
	answer := make(chan []byte, 1)
	go func() {
		raw, _ := io.ReadAll(io.LimitReader(status, keeperPlan)) // what is missing shows as a bad event
		answer <- raw
	}()
	if err := json.NewEncoder(plan).Encode(o); err != nil {
		return Report{}, failed(StageFork, fmt.Errorf("send the plan to the helper: %w", err))
	}
	if err := plan.Close(); err != nil {
		return Report{}, failed(StageFork, err)
	}
	deadline := time.NewTimer(keeperStart)
	defer deadline.Stop()
	select {
	case raw := <-answer:
		return reported(raw)
	case <-k.ordered:
		return Report{}, failed(StageFork, errors.New("the end was ordered during the start"))
	case <-deadline.C:
		return Report{}, failed(StageFork, errors.New("the helper did not become the runner in time"))
	}
}

// reported reads the helper's events: a start counts only if nothing failed after it.
func reported(raw []byte) (Report, error) {
	var report *Report
	for d := json.NewDecoder(bytes.NewReader(raw)); ; {
		var e Event
		err := d.Decode(&e)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Report{}, failed(StageReport, fmt.Errorf("read the helper's report: %w", err))
		}
		if e.Failed != nil {
			return Report{}, e.Failed
		}
		if e.Started != nil {
			report = &e.Started.Report
		}
	}
	if report == nil {
		return Report{}, failed(StageReport, errors.New("the helper ended without a report"))
	}
	return *report, nil
}

// dropStreams lets go of the runner's pipes, so that their ends mean the runner's end.
func (k *keeper) dropStreams() error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { _ = null.Close() }() // it is duplicated
	for fd := range 3 {
		if err := k.machine.become(int(null.Fd()), fd); err != nil {
			return err
		}
	}
	return nil
}

// await collects the runner when it has ended.
func await(pid int) <-chan unix.WaitStatus {
	ended := make(chan unix.WaitStatus, 1)
	go func() {
		for {
			var status unix.WaitStatus
			got, err := unix.Wait4(pid, &status, 0, nil)
			if errors.Is(err, unix.EINTR) || err == nil && got != pid {
				continue
			}
			ended <- status
			return
		}
	}()
	return ended
}

// end ends a helper that has not become the runner, and takes it away.
func end(pid int) {
	_ = unix.Kill(pid, unix.SIGKILL)
	<-await(pid)
}

// failed describes err; the errno travels as a number, because its text differs between systems.
func failed(stage string, err error) *Failure {
	f := &Failure{Stage: stage, Text: err.Error()}
	if errno := unix.Errno(0); errors.As(err, &errno) {
		f.Errno = int(errno)
	}
	return f
}
