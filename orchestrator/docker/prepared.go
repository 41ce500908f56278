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

// prepared is a started container whose runner waits for its hello.
type prepared struct {
	backend   *Backend
	engine    *engine
	spec      spec
	directory string // that Prepare was given
	container *box

	mu    sync.Mutex
	spent bool // bound or closed
}

var errSpent = errors.New("bind: the prepared container was bound or closed before")

// Bind says hello for the claim's session and seals the posture. When it fails the
// container is gone.
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
	out := &demux{r: p.container.stream.Reader}
	peer := wire.NewPeer(out, p.container.stream.Conn, wire.PeerOptions{Close: p.container.stream.Conn.Close})
	posture, err := p.greet(ctx, peer, claim)
	if err != nil {
		err = p.explain(ctx, out, err)
		return nil, errors.Join(err, peer.Close(), p.container.undo(ctx))
	}
	return newInstance(claim.ID, p.container, peer, posture), nil
}

// greet says hello and reads back what was really applied, from inside and outside.
func (p *prepared) greet(ctx context.Context, peer *wire.Peer, claim sandbox.Claim) (sandbox.Posture, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, helloTimeout, fmt.Errorf("the runner took longer than %s to answer", helloTimeout))
	defer cancel()
	ready, err := peer.Hello(ctx, wire.Hello{
		Session: claim.Session, Workspace: workspacePath, Scratch: scratchPath,
		Timezone: claim.Timezone, Locale: claim.Locale, Bounds: p.spec.limits.Bounds(),
	})
	if err != nil {
		return sandbox.Posture{}, fmt.Errorf("greet the runner: %w", err)
	}
	if ready.Runner != runner.Hash() {
		return sandbox.Posture{}, fmt.Errorf("greet the runner: it is %s, this brig trusts %.16s", printable(ready.Runner), runner.Hash())
	}
	inspect, err := p.engine.cli.ContainerInspect(ctx, p.container.id)
	if err != nil {
		return sandbox.Posture{}, fmt.Errorf("read the container back: %w", err)
	}
	return posture(p.engine, p.spec, inspect, ready)
}

// explain adds what is known about a container whose runner did not answer.
func (p *prepared) explain(ctx context.Context, out *demux, err error) error {
	var lost *wire.LostError
	if !errors.As(err, &lost) {
		return err
	}
	ending := p.container.classify(context.WithoutCancel(ctx))
	if said := out.diagnostic(); said != "" {
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
	return p.container.undo(ctx)
}
