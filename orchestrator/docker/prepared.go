package docker

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"brig/orchestrator/runner"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// helloTimeout is how long a runner may take to answer; a busy machine starts slowly.
const helloTimeout = 20 * time.Second

// prepared is a container whose runner has been greeted and waits for a session.
type prepared struct {
	engine    *engine
	spec      spec
	container *box
	peer      *wire.Peer
	ready     wire.Ready
	secret    string // of a lease
	posture   sandbox.Posture
	directory string // that Prepare was given

	mu    sync.Mutex
	spent bool // bound or closed
}

var errSpent = errors.New("bind: the prepared container was bound or closed before")

// greet says hello to the runner of a fresh container and seals the posture: it
// reads back what was really applied, from inside and outside. When it fails the
// container is gone.
func greet(ctx context.Context, e *engine, s spec, x *box, directory string) (*prepared, error) {
	x.out = &demux{r: x.stream.Reader}
	p := &prepared{
		engine: e, spec: s, container: x, directory: directory,
		peer: wire.NewPeer(x.out, x.stream.Conn, wire.PeerOptions{Close: x.stream.Conn.Close}),
	}
	if err := p.observe(ctx); err != nil {
		err = p.explain(ctx, err)
		return nil, errors.Join(err, p.peer.Close(), x.undo(ctx))
	}
	x.renew(p.peer, s.lease)
	return p, nil
}

func (p *prepared) observe(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, helloTimeout, fmt.Errorf("the runner took longer than %s to answer", helloTimeout))
	defer cancel()
	ctx, over := context.WithDeadlineCause(ctx, p.container.until, fmt.Errorf("the start took longer than %s", startTimeout))
	defer over()
	hello := wire.Hello{Workspace: workspacePath, Scratch: scratchPath, Bounds: p.spec.limits.Bounds()}
	if p.spec.lease > 0 {
		p.secret = wire.NewSecret()
		hello.Lease, hello.Resume = p.spec.lease, p.secret
	} else {
		hello.Silence = p.container.patience.silence
	}
	p.ready, err = p.peer.Hello(ctx, hello)
	if err != nil {
		return fmt.Errorf("greet the runner: %w", err)
	}
	return p.seal(ctx)
}

// seal reads back what holds, from inside by what the runner says and from outside.
func (p *prepared) seal(ctx context.Context) (err error) {
	if p.ready.Runner != runner.Hash() {
		return fmt.Errorf("greet the runner: it is %s, this brig trusts %.16s", printable(p.ready.Runner), runner.Hash())
	}
	inspect, err := p.engine.readBack(ctx, p.container.id)
	if err != nil {
		return fmt.Errorf("read the container back: %w", err)
	}
	p.container.watchCounters(inspect)
	p.posture, err = posture(gather(p.engine, p.spec, inspect, p.ready, p.container.warnings))
	return err
}

// Bind tells the runner what the session brings. When it fails the container is gone.
func (p *prepared) Bind(ctx context.Context, claim sandbox.Claim) (sandbox.Instance, error) {
	if filepath.Clean(claim.Workspace) != filepath.Clean(p.directory) {
		return nil, fmt.Errorf("bind: %w", sandbox.ErrCold)
	}
	p.mu.Lock()
	spent := p.spent
	p.spent = true
	p.mu.Unlock()
	if spent {
		return nil, errSpent
	}
	i := newInstance(claim.ID, p.container, p.peer, p.posture)
	args := wire.ControlArgs{Timezone: claim.Timezone, Locale: claim.Locale}
	if _, err := i.Call(ctx, wire.Control{Op: wire.OpBind, Args: args}, nil, nil); err != nil {
		return nil, errors.Join(fmt.Errorf("bind: %w", err), i.Close(context.WithoutCancel(ctx)))
	}
	return i.wrap(p.spec.lease, p.secret), nil
}

// Done is closed when the connection to the container is.
func (p *prepared) Done() <-chan struct{} { return p.peer.Done() }

// explain adds what is known about a container whose runner did not answer.
func (p *prepared) explain(ctx context.Context, err error) error {
	var lost *wire.LostError
	if !errors.As(err, &lost) {
		return err
	}
	ending := p.container.classify(context.WithoutCancel(ctx), p.container.meter.killedSince())
	if said := p.container.out.diagnostic(); said != "" {
		ending.Detail += "; the last it said was: " + said
	}
	return &sandbox.Lost{Ending: ending, Err: err}
}

// Close removes a container that was never bound.
func (p *prepared) Close(ctx context.Context) error {
	p.mu.Lock()
	spent := p.spent
	p.spent = true
	p.mu.Unlock()
	if spent {
		return nil
	}
	return errors.Join(p.peer.Close(), p.container.undo(ctx))
}
