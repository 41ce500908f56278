package hostfallback

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"brig/hostfallback/confine"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// endGrace is how long a runner may live on after its connection has ended.
const endGrace = 2 * time.Second

// instance is one confined runner, prepared and later bound.
type instance struct {
	process   *process
	started   confine.Started
	base      sandbox.Base
	python    interpreter
	workspace string
	release   func()
	hash      string // that the runner has to have
	refused   string // why it was not forked from a zygote that was there; or empty
	peer      *wire.Peer

	taken   atomic.Bool // Bind was called
	closed  atomic.Bool // Close was called
	id      sandbox.InstanceID
	posture sandbox.Posture

	done   chan struct{} // closed when everything is gone and ending is set
	ending sandbox.Ending
}

// prepared is an instance that no session owns yet: the same thing with the
// methods of the other interface.
type prepared struct{ *instance }

func newInstance(p *process, started confine.Started, base sandbox.Base, in interpreter, workspace string, release func()) *prepared {
	i := &instance{
		process: p, started: started, base: base, python: in, workspace: workspace, release: release,
		done: make(chan struct{}),
	}
	i.peer = wire.NewPeer(p.stdout, p.stdin, wire.PeerOptions{Close: p.hangUp})
	go i.await()
	return &prepared{i}
}

// await ends the instance when its connection or its supervisor ends, whichever
// is first, and notes why. It is the only writer of ending.
func (i *instance) await() {
	defer close(i.done)
	select {
	case <-i.process.gone:
	case <-i.peer.Done():
		if i.closed.Load() {
			break
		}
		// The runner may be dying of what the supervisor is about to report; an
		// order would hide that. A runner that only closed its pipe is ended.
		grace := time.NewTimer(endGrace)
		select {
		case <-i.process.gone:
		case <-grace.C:
		}
		grace.Stop()
	}
	if err := i.process.end(); err != nil {
		i.ending = sandbox.Ending{Cause: sandbox.Internal, Detail: err.Error()}
	}
	lost := i.peer.Err()
	_ = i.peer.Close() // everything that could be said was said
	if i.ending.Cause == "" {
		i.ending = i.explain(lost)
	}
	i.release()
}

// explain turns the evidence into a cause: first what the supervisor measured,
// then how the runner ended.
func (i *instance) explain(lost error) sandbox.Ending {
	e := i.process.ended
	if e == nil {
		return sandbox.Ending{Cause: sandbox.BackendLost, Detail: "the supervisor of the process tree was killed"}
	}
	switch e.Cause {
	case confine.EndMemory:
		if e.By == confine.ByCgroup {
			return sandbox.Ending{Cause: sandbox.MemoryOut, Detail: fmt.Sprintf("the kernel refused its processes more than the %s of their control group", size(e.Limit))}
		}
		return sandbox.Ending{Cause: sandbox.MemoryOut, Detail: fmt.Sprintf("its processes held %s of memory, the limit is %s", size(e.Used), size(e.Limit))}
	case confine.EndDisk:
		if e.Unseen != "" {
			return sandbox.Ending{Cause: sandbox.DiskOut, Detail: "workspace and scratch cannot be watched for their limit: " + e.Unseen}
		}
		return sandbox.Ending{Cause: sandbox.DiskOut, Detail: fmt.Sprintf("workspace and scratch held %s, the limit is %s", size(e.Used), size(e.Limit))}
	case confine.EndProcesses:
		if e.By == confine.ByCgroup {
			return sandbox.Ending{Cause: sandbox.ProcessOut, Detail: fmt.Sprintf("the kernel refused its processes more than the %d processes and threads of their control group", e.Limit)}
		}
		return sandbox.Ending{Cause: sandbox.ProcessOut, Detail: fmt.Sprintf("%d processes and threads ran, the limit is %d", e.Used, e.Limit)}
	case confine.EndOrdered:
		if i.closed.Load() {
			return sandbox.Ending{Cause: sandbox.Cancelled, Detail: "closed by brig"}
		}
		var broken *wire.ProtocolError
		if errors.As(lost, &broken) {
			return sandbox.Ending{Cause: sandbox.BackendLost, Detail: "the runner broke the protocol and was ended"}
		}
		return sandbox.Ending{Cause: sandbox.BackendLost, Detail: "the connection to the runner ended"}
	case confine.EndSelf:
		switch {
		case e.Signal != 0:
			return sandbox.Ending{Cause: sandbox.Killed, Detail: fmt.Sprintf("the runner was killed by signal %d", e.Signal)}
		case e.Status != 0:
			return sandbox.Ending{Cause: sandbox.BackendLost, Detail: fmt.Sprintf("the runner ended with status %d%s", e.Status, quoted(i.process.words.String()))}
		}
		if i.closed.Load() {
			return sandbox.Ending{Cause: sandbox.Cancelled, Detail: "closed by brig"}
		}
		return sandbox.Ending{Cause: sandbox.BackendLost, Detail: "the runner ended by itself"}
	}
	return sandbox.Ending{Cause: sandbox.Internal, Detail: fmt.Sprintf("the supervisor reported an unknown end %q", string(e.Cause))}
}

// Bind tells the runner what the session brings.
func (p *prepared) Bind(ctx context.Context, claim sandbox.Claim) (sandbox.Instance, error) {
	i := p.instance
	if claim.Workspace != i.workspace {
		return nil, sandbox.ErrCold
	}
	if i.taken.Swap(true) {
		return nil, errors.New("bind: the instance belongs to a session already")
	}
	if err := i.bind(ctx, claim); err != nil {
		return nil, errors.Join(err, i.Close(context.WithoutCancel(ctx)))
	}
	return i, nil
}

func (i *instance) bind(ctx context.Context, claim sandbox.Claim) error {
	i.id = claim.ID
	select {
	case <-i.done: // its directory is gone, too
		return fmt.Errorf("bind: %w", &sandbox.Lost{Ending: i.ending})
	default:
	}
	if err := os.WriteFile(filepath.Join(i.process.plan.Home, idFile), []byte(claim.ID), 0o600); err != nil {
		return fmt.Errorf("note the instance's id: %w", err)
	}
	args := wire.ControlArgs{Timezone: claim.Timezone, Locale: claim.Locale}
	if _, err := i.peer.Call(ctx, wire.Control{Op: wire.OpBind, Args: args}, nil, nil); err != nil {
		return fmt.Errorf("bind: %w", i.lost(err))
	}
	return nil
}

// greetPatience is how long a runner may take to answer; a busy machine starts slowly.
const greetPatience = 20 * time.Second

// greet says hello, and seals the posture from what the runner observed.
func (i *instance) greet(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, greetPatience, fmt.Errorf("the runner took longer than %s to answer", greetPatience))
	defer cancel()
	ready, err := i.peer.Hello(ctx, wire.Hello{
		Workspace: i.process.plan.Workspace, Scratch: i.process.plan.Scratch, Bounds: i.base.Limits.Bounds(),
	})
	if err != nil {
		return fmt.Errorf("greet the runner: %w", i.lost(err))
	}
	if want := i.hash; want == "" || ready.Runner != want {
		return fmt.Errorf("greet the runner: it has the hash %.16s, brig installed %.16s", ready.Runner, want)
	}
	e := evidence{report: i.started.Report, watch: i.started.Watch, observed: &ready.Observed, outside: namespacesOfBrig(), base: i.base, sockets: sockets(i.process.plan.Grants)}
	rows := layers(e)
	if err := sandbox.Complete(rows); err != nil {
		panic("BUG: " + err.Error())
	}
	if err := errors.Join(e.loopback(), satisfies(i.base, rows)); err != nil {
		return err
	}
	i.posture = sandbox.Posture{
		Backend:  sandbox.Host,
		Identity: fmt.Sprintf("%s %s %s", strings.ToLower(ready.Implementation), ready.Python, i.python.About.Executable) + forkedIdentity(i.started.Report),
		Layers:   rows, Promised: promised(i.base), Notes: notes(e),
	}
	if left := i.python.notGranted(); left != "" && i.base.Mode != sandbox.ModeOff {
		i.posture.Notes = append(i.posture.Notes, "not granted: "+left)
	}
	if i.refused != "" {
		i.posture.Notes = append(i.posture.Notes, "it was started by itself, although there was a zygote: "+i.refused)
	}
	return nil
}

// Close of a prepared instance does nothing once it was bound.
func (p *prepared) Close(ctx context.Context) error {
	if p.taken.Load() {
		return nil
	}
	return p.instance.Close(ctx)
}

func (i *instance) ID() sandbox.InstanceID { return i.id }
func (i *instance) Done() <-chan struct{}  { return i.done }

func (i *instance) Posture() sandbox.Posture {
	p := i.posture
	p.Layers, p.Promised, p.Notes = slices.Clone(p.Layers), slices.Clone(p.Promised), slices.Clone(p.Notes)
	return p
}

func (i *instance) Cause() sandbox.Ending {
	select {
	case <-i.done:
		return i.ending
	default:
		return sandbox.Ending{}
	}
}

func (i *instance) Run(ctx context.Context, req wire.Run, emit func(wire.Event) error) (wire.Exit, error) {
	exit, err := i.peer.Run(ctx, req, emit)
	return exit, i.lost(err)
}

func (i *instance) Call(ctx context.Context, req wire.Control, in io.Reader, out io.Writer) (wire.Reply, error) {
	reply, err := i.peer.Call(ctx, req, in, out)
	return reply, i.lost(err)
}

func (i *instance) Interrupt(ctx context.Context, run wire.RunID, level wire.Level, sweep bool) error {
	return i.lost(i.peer.Interrupt(ctx, run, level, sweep))
}

// lost turns the wire's errors into the contract's. The connection ends before
// the processes do, so the evidence is waited for; their end is bounded.
func (i *instance) lost(err error) error {
	return sandbox.FromWire(err, func() sandbox.Ending {
		grace := time.NewTimer(endGrace)
		defer grace.Stop()
		select {
		case <-i.done:
		case <-grace.C: // lost to us, but not gone: a runner that does not answer
			i.process.order()
			<-i.done
		}
		return i.ending
	})
}

// Close ends the runner, everything it started, and what it left on disk.
func (i *instance) Close(ctx context.Context) error {
	i.closed.Store(true)
	i.process.order()
	select {
	case <-i.done:
	case <-ctx.Done():
		return fmt.Errorf("close the instance: %w", context.Cause(ctx))
	}
	if left := i.process.left; len(left) > 0 {
		return &sandbox.LeftBehind{What: processNames(left), Err: errors.New("they do not end")}
	}
	if home := i.process.plan.Home; exists(home) {
		return &sandbox.LeftBehind{What: []string{home}, Err: errors.New("it cannot be removed")}
	}
	return nil
}
