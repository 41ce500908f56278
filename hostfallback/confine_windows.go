package hostfallback

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/windows"

	"brig/hostfallback/confine"
)

// supported says that there is a host sandbox for this system: nested jobs and
// integrity levels are older than every Windows that this program starts on.
func supported() error { return nil }

// ourselves is not started again here: see launch.
func ourselves() (string, error) { return os.Executable() }

// shield does nothing: processes of a low integrity level can neither read nor
// change those of a higher one.
func shield() error { return nil }

// pipeSize is how much a pipe of the runner holds. Its own ends never block, so
// what does not fit makes it look again and again.
const pipeSize = 1 << 20

// launch makes the runner in a job and waits until it has been started. On error
// nothing is left running. The supervisor is a part of this process: if brig ends,
// the kernel closes the only handle of the job and ends everything in it, so there
// is nothing that another process would have to outlive brig for.
func launch(ctx context.Context, _ string, plan confine.Plan) (*process, confine.Started, error) {
	if plan.Network == confine.NetworkLoopback {
		return nil, confine.Started{}, unavailable("host-network-loopback", "set host.network to deny, or use the docker backend", errors.ErrUnsupported,
			"host.network is loopback, and Windows gives no program a network of its own without an administrator")
	}
	root, err := windows.GetSystemWindowsDirectory()
	if err != nil {
		return nil, confine.Started{}, fmt.Errorf("find the directory of Windows: %w", err)
	}
	plan.Env = confine.WindowsPlace{
		Root: root, Python: plan.Command[0], Scratch: plan.Scratch, Token: plan.Token, Threads: plan.Limits.CPUs,
	}.Environment()
	p := &process{plan: plan, first: make(chan confine.Event, 1), gone: make(chan struct{})}
	if err := p.start(); err != nil {
		return nil, confine.Started{}, err
	}
	go p.follow(func() int { return 0 })
	started, err := p.begin(ctx)
	if err != nil {
		return nil, confine.Started{}, errors.Join(err, p.hangUp(), p.end())
	}
	return p, started, nil
}

func (p *process) start() error {
	var made []*os.File
	pipe := func(size uint32) (r, w *os.File, err error) {
		var reading, writing windows.Handle
		if err := windows.CreatePipe(&reading, &writing, nil, size); err != nil {
			return nil, nil, fmt.Errorf("make a pipe for the runner: %w", err)
		}
		r, w = os.NewFile(uintptr(reading), "|0"), os.NewFile(uintptr(writing), "|1")
		made = append(made, r, w)
		return r, w, nil
	}
	var streams confine.Streams
	var control, status *os.File
	var err error
	for _, make := range []func() error{
		func() (err error) { streams.In, p.stdin, err = pipe(pipeSize); return err },
		func() (err error) { p.stdout, streams.Out, err = pipe(pipeSize); return err },
		func() (err error) { p.stderr, streams.Err, err = pipe(pipeSize); return err },
		func() (err error) { control, p.control, err = pipe(0); return err },
		func() (err error) { p.status, status, err = pipe(pipeSize); return err },
	} {
		err = errors.Join(err, make())
	}
	if err != nil {
		for _, f := range made {
			_ = f.Close() // the start has failed already
		}
		return err
	}
	p.inside = make(chan struct{})
	go func() {
		defer close(p.inside)
		confine.Supervise(p.plan, streams, control, status)
		_ = status.Close() // what is missing shows as a bad event
		_ = control.Close()
	}()
	return nil
}

// begin waits for the first event.
func (p *process) begin(ctx context.Context) (confine.Started, error) {
	patience := time.NewTimer(startPatience)
	defer patience.Stop()
	select {
	case e, ok := <-p.first:
		switch {
		case ok && e.Started != nil:
			return *e.Started, nil
		case ok && e.Failed != nil && e.Failed.Stage == confine.StageLabels:
			r := why(confine.CodeLabelRefused)
			return confine.Started{}, unavailable(r.code, r.remedy, e.Failed, "%s: %s", r.cause, e.Failed.Text)
		case ok && e.Failed != nil:
			return confine.Started{}, fmt.Errorf("confine the runner: %w", e.Failed)
		}
		return confine.Started{}, errors.New("confine the runner: there is no report")
	case <-ctx.Done():
		return confine.Started{}, context.Cause(ctx)
	case <-patience.C:
		return confine.Started{}, errors.New("confine the runner: it was not started in time")
	}
}

// rescue has no process to end, because the kernel did; it restores the labels
// that a killed brig left.
func rescue(home, _ string, _ int) ([]int, error) { return nil, confine.RestoreLabels(home) }
