//go:build linux || darwin

package hostfallback

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"brig/hostfallback/confine"
)

// launch starts a supervisor with a plan and waits until the runner has been
// confined and started. On error nothing is left running.
func launch(ctx context.Context, executable string, plan confine.Plan) (*process, confine.Started, error) {
	p := newProcess(plan)
	if err := p.start(executable, confine.VerbSupervise); err != nil {
		return nil, confine.Started{}, err
	}
	return p.launched(ctx, p.begin)
}

// launched waits until begin has seen the process start.
func (p *process) launched(ctx context.Context, begin func(context.Context) (confine.Started, error)) (*process, confine.Started, error) {
	var mu sync.Mutex
	var runner int
	go p.follow(func() int {
		mu.Lock()
		defer mu.Unlock()
		return runner
	})
	started, err := begin(ctx)
	if err != nil {
		return nil, confine.Started{}, errors.Join(err, p.hangUp(), p.end())
	}
	mu.Lock()
	runner = started.PID
	mu.Unlock()
	return p, started, nil
}

// start forks the supervisor. It is in a session of its own: a terminal's
// interrupt is for brig, which knows what to do with it.
func (p *process) start(executable, verb string, more ...*os.File) error {
	theirs, err := p.pipes()
	if err == nil {
		p.handle, err = os.StartProcess(executable, []string{"brig", verb}, &os.ProcAttr{
			Dir: "/", Env: []string{}, Files: append(theirs, more...), Sys: &syscall.SysProcAttr{Setsid: true},
		})
	}
	for _, f := range theirs {
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		p.drop()
		return fmt.Errorf("start the supervisor: %w", err)
	}
	p.kill = p.handle.Kill
	return nil
}

// pipes makes those of the runner and of the supervisor, and returns their ends.
func (p *process) pipes() (theirs []*os.File, err error) {
	pipe := func(brigReads bool) *os.File {
		if err != nil { // one reason is enough
			return nil
		}
		r, w, perr := os.Pipe()
		if perr != nil {
			err = fmt.Errorf("make a pipe for the runner: %w", perr)
			return nil
		}
		if brigReads {
			theirs = append(theirs, w)
			return r
		}
		theirs = append(theirs, r)
		return w
	}
	// In the order of the descriptors that the supervisor finds.
	p.stdin, p.stdout, p.stderr, p.control, p.status = pipe(false), pipe(true), pipe(true), pipe(false), pipe(true)
	return theirs, err
}

// drop closes brig's ends of pipes that lead nowhere.
func (p *process) drop() {
	for _, f := range []*os.File{p.stdin, p.stdout, p.stderr, p.control, p.status} {
		if f != nil {
			_ = f.Close() // the start has failed already
		}
	}
}

// begin sends the plan and waits for the first event.
func (p *process) begin(ctx context.Context) (confine.Started, error) {
	if err := p.control.SetWriteDeadline(time.Now().Add(startPatience)); err != nil {
		return confine.Started{}, fmt.Errorf("send the plan: %w", err)
	}
	if err := json.NewEncoder(p.control).Encode(p.plan); err != nil {
		return confine.Started{}, fmt.Errorf("send the plan: %w", err)
	}
	return p.awaitStart(ctx)
}

// awaitStart waits for the first event.
func (p *process) awaitStart(ctx context.Context) (confine.Started, error) {
	patience := time.NewTimer(startPatience)
	defer patience.Stop()
	select {
	case e, ok := <-p.first:
		switch {
		case ok && e.Started != nil:
			return *e.Started, nil
		case ok && e.Failed != nil:
			return confine.Started{}, fmt.Errorf("confine the runner: %w", e.Failed)
		}
		return confine.Started{}, fmt.Errorf("confine the runner: the supervisor ended without a report%s", quoted(p.words.String()))
	case <-ctx.Done():
		return confine.Started{}, context.Cause(ctx)
	case <-patience.C:
		return confine.Started{}, errors.New("confine the runner: the supervisor did not report in time")
	}
}

// rescue kills what a killed supervisor could not, and returns what would not
// die: first the control group, which holds everything whatever it did to hide.
func rescue(home, token string, runner int) ([]int, error) {
	left, err := confine.RemoveCgroup(home, token)
	return append(left, confine.Rescue(token, runner)...), err
}

// abandoned takes the lock of an instance's directory for good if nobody works
// for it any more.
func abandoned(lock string) (release func(), ok bool, err error) {
	f, err := os.OpenFile(lock, os.O_RDWR, 0)
	if err != nil {
		return nil, false, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err != nil {
		_ = f.Close() // nothing was written
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, false, nil
		}
		return nil, false, err
	}
	return func() { _ = f.Close() }, true, nil
}

// occupy makes the lock file and holds a shared lock on it.
func occupy(lock string) (release func(), err error) {
	f, err := os.OpenFile(lock, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// share holds a shared lock on a file that may be there already, or be removed by
// whoever had it alone. It waits for that one, who is quick.
func share(lock string) (release func(), err error) {
	for range 100 {
		f, err := os.OpenFile(lock, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); {
		case err == nil:
			held, err := f.Stat()
			if there, serr := os.Stat(lock); err == nil && serr == nil && os.SameFile(held, there) {
				return func() { _ = f.Close() }, nil
			}
		case !errors.Is(err, unix.EWOULDBLOCK):
			return nil, errors.Join(err, f.Close())
		}
		_ = f.Close() // nothing was written
		time.Sleep(10 * time.Millisecond)
	}
	return nil, errors.New("another brig is removing them and does not finish")
}
