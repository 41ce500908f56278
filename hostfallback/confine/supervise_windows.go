package confine

import (
	"encoding/json"
	"errors"
	"io"
	"runtime"
	"time"

	"golang.org/x/sys/windows"
)

const (
	sweepWindows = 4 * time.Second // for ended processes to be gone
	tickWindows  = time.Second     // between two looks at the disk
)

// Supervise starts one instance, watches it and ends it, like the supervisor of
// other systems, but inside of brig: the job ends everything when brig ends, and
// the only thing that would stay, the label of the workspace, is in the journal.
// It returns when nothing of the instance is left. The end of control orders that.
func Supervise(plan Plan, streams Streams, control io.Reader, status io.Writer) {
	tell := func(e Event) { _ = json.NewEncoder(status).Encode(e) } // nobody may be listening any more
	s := superviseWindows{plan: plan, want: plan.Job()}
	started, err := s.start(streams)
	err = errors.Join(err, streams.In.Close(), streams.Out.Close(), streams.Err.Close())
	if err == nil && !plan.CheckOnly {
		err = s.runner.begin()
	}
	if err != nil || plan.CheckOnly {
		err = errors.Join(err, s.clear())
		if err != nil {
			tell(Event{Failed: failureOf(err)})
			return
		}
		tell(Event{Started: &started})
		return
	}
	tell(Event{Started: &started})
	ordered := make(chan struct{})
	go func() {
		defer close(ordered)
		_, _ = io.Copy(io.Discard, control) // its end is the message
	}()
	ended := s.watch(ordered)
	s.end(&ended)
	tell(Event{Ended: &ended})
}

type superviseWindows struct {
	plan   Plan
	want   Job
	job    windows.Handle
	runner born
}

func failureOf(err error) *Failure {
	var f *Failure
	if errors.As(err, &f) {
		return f
	}
	return &Failure{Stage: StageFork, Text: err.Error()}
}

func stage(name string, err error) error {
	var code windows.Errno
	f := &Failure{Stage: name, Text: err.Error()}
	if errors.As(err, &code) {
		f.Errno = int(code)
	}
	return f
}

// start makes the runner and reads back what became of everything it was given.
func (s *superviseWindows) start(streams Streams) (Started, error) {
	job, err := newJob(s.want)
	if err != nil {
		return Started{}, stage(StageLimits, err)
	}
	s.job = job
	token, err := primaryToken(s.plan.PrimaryToken())
	if err != nil {
		return Started{}, stage(StagePrivs, err)
	}
	defer func() { _ = token.Close() }() // the runner has its own
	places := s.plan.Labels()
	unlabelled := label(kernelLabels{}, s.plan.Home, places)
	if s.runner, err = bear(s.plan, streams, job, token); err != nil {
		return Started{}, stage(StageFork, err)
	}
	w, err := s.readBack()
	if err != nil {
		return Started{}, stage(StageReport, err)
	}
	w.Labelled = unlabelled == nil && len(places) > 0
	if unlabelled != nil {
		w.Unlabelled = unlabelled.Error()
		// Low, it could write nowhere at all: a session that can do nothing is no sandbox.
		if w.Low() {
			return Started{}, stage(StageLabels, unlabelled)
		}
	}
	v := windows.RtlGetVersion()
	return Started{
		PID: s.runner.pid,
		Report: Report{
			Kernel: "windows " + version(v.MajorVersion, v.MinorVersion, v.BuildNumber), UID: -1,
			Variables: names(s.plan.Env), Windows: &w, CPUs: runtime.NumCPU(),
		},
		Watch: Watch{Disk: s.plan.Limits.Disk},
	}, nil
}

// readBack asks the kernel what the suspended runner is held by.
func (s *superviseWindows) readBack() (Windows, error) {
	w := Windows{
		Emulated: emulator(), Want: s.want, WantRate: s.want.Rate(runtime.NumCPU()),
		Born: s.runner.inside, Handles: 3,
	}
	inside, err := inJob(s.runner.process, s.job)
	if err != nil {
		return w, err
	}
	w.Job = Layer{Applied: inside}
	if !inside {
		w.Job.Code = CodeJobRefused
	}
	if w.Got, w.GotRate, err = readJob(s.job); err != nil {
		return w, err
	}
	w.Integrity, w.Privileges, err = readToken(s.runner.process)
	return w, err
}

// watch waits for the first reason to end.
func (s *superviseWindows) watch(ordered <-chan struct{}) Ended {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = windows.WaitForSingleObject(s.runner.process, windows.INFINITE)
	}()
	tick := time.NewTicker(tickWindows)
	defer tick.Stop()
	for {
		select {
		case <-gone:
			return Ended{Cause: EndSelf, Status: s.exitStatus()}
		case <-ordered:
			return Ended{Cause: EndOrdered, Status: -1}
		case <-tick.C:
			limit := s.plan.Limits.Disk
			if limit <= 0 {
				continue
			}
			used, unseen := int64(0), ""
			for _, dir := range []string{s.plan.Workspace, s.plan.Scratch} {
				bytes, beyond := diskUse(dir)
				used += bytes
				if unseen == "" {
					unseen = beyond
				}
			}
			if used > limit || unseen != "" {
				return Ended{Cause: EndDisk, By: ByWatch, Used: used, Limit: limit, Unseen: unseen, Status: -1}
			}
		}
	}
}

func (s *superviseWindows) exitStatus() int {
	var code uint32
	if err := windows.GetExitCodeProcess(s.runner.process, &code); err != nil {
		return -1
	}
	return int(code)
}

// end ends every process of the job and restores what has to be.
func (s *superviseWindows) end(ended *Ended) {
	began := time.Now()
	ended.Killed, _ = active(s.job) // 0 where it cannot be asked
	for deadline := began.Add(sweepWindows); ; time.Sleep(time.Millisecond) {
		left, err := active(s.job)
		if err == nil && left == 0 {
			break
		}
		if time.Now().After(deadline) {
			ended.Left = members(s.job)
			break
		}
		_ = windows.TerminateJobObject(s.job, 1) // it is looked at again
	}
	ended.Took = time.Since(began)
	_ = windows.CloseHandle(s.runner.process)
	_ = windows.CloseHandle(s.job)
	_ = RestoreLabels(s.plan.Home) // what stays is in the journal, for a sweep that can report it
}

// clear undoes a start.
func (s *superviseWindows) clear() error {
	var err error
	if s.runner.process != 0 {
		err = s.runner.discard()
	}
	if s.job != 0 {
		err = errors.Join(err, windows.TerminateJobObject(s.job, 1), windows.CloseHandle(s.job))
	}
	return errors.Join(err, RestoreLabels(s.plan.Home))
}
