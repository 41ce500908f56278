package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// memoryPrepared implements sandbox.Prepared.
type memoryPrepared struct {
	mu       sync.Mutex
	bound    bool
	instance *memoryInstance
}

func (p *memoryPrepared) Bind(ctx context.Context, claim sandbox.Claim) (sandbox.Instance, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case p.bound:
		return nil, errors.New("bind: the prepared instance is bound already")
	case claim.Workspace != p.instance.node.workspace:
		return nil, fmt.Errorf("bind: %w", sandbox.ErrCold)
	}
	p.bound = true
	p.instance.bind(claim.ID)
	args := wire.ControlArgs{Timezone: claim.Timezone, Locale: claim.Locale}
	if _, err := p.instance.Call(ctx, wire.Control{Op: wire.OpBind, Args: args}, nil, nil); err != nil {
		return nil, errors.Join(fmt.Errorf("bind: %w", err), p.instance.Close(context.WithoutCancel(ctx)))
	}
	if p.instance.node.base.Lease > 0 {
		return &keptInstance{p.instance}, nil
	}
	return p.instance, nil
}

// lose kills it from the far side.
func (p *memoryPrepared) lose(e sandbox.Ending) { p.instance.node.lose(e) }

func (p *memoryPrepared) Done() <-chan struct{} { return p.instance.done }

func (p *memoryPrepared) Close(ctx context.Context) error {
	p.mu.Lock()
	bound := p.bound
	p.mu.Unlock()
	if bound {
		return nil
	}
	return p.instance.Close(ctx)
}

// memoryInstance implements sandbox.Instance.
type memoryInstance struct {
	backend  *Memory
	node     *node
	link     *link
	peer     *wire.Peer
	posture  sandbox.Posture
	watching sync.WaitGroup
	done     chan struct{}

	mu       sync.Mutex
	id       sandbox.InstanceID
	ending   sandbox.Ending
	gone     bool
	closing  bool // Close was called
	detached bool // it is not this one's to end any more
}

func (i *memoryInstance) bind(id sandbox.InstanceID) {
	i.mu.Lock()
	i.id = id
	i.mu.Unlock()
	i.node.mu.Lock()
	i.node.id = id
	i.node.mu.Unlock()
}

func (i *memoryInstance) ID() sandbox.InstanceID {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.id
}

func (i *memoryInstance) Posture() sandbox.Posture {
	p := i.posture
	p.Layers, p.Promised, p.Notes = slices.Clone(p.Layers), slices.Clone(p.Promised), slices.Clone(p.Notes)
	return p
}

// end notes why the instance ends; the first reason counts.
func (i *memoryInstance) end(e sandbox.Ending) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ending == (sandbox.Ending{}) {
		i.ending = e
	}
}

// lose kills a node from the far side; whoever is connected learns why.
func (n *node) lose(e sandbox.Ending) {
	i := n.heldBy()
	if i != nil {
		i.end(e)
	}
	n.kill()
	if i != nil {
		<-i.done
	}
}

// watch waits for the end of the connection and tells everybody.
func (i *memoryInstance) watch() {
	<-i.peer.Done()
	<-i.link.over
	if i.node.base.Lease == 0 || i.node.dying() {
		<-i.node.ended // only now: what a dying worker reports must not pass for an end
	}
	i.end(sandbox.Ending{Cause: sandbox.BackendLost, Detail: "the connection to the runner ended"})
	i.mu.Lock()
	i.gone = true
	i.mu.Unlock()
	close(i.done)
}

func (i *memoryInstance) Done() <-chan struct{} { return i.done }

func (i *memoryInstance) Cause() sandbox.Ending {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.gone {
		return sandbox.Ending{}
	}
	return i.ending
}

// lost turns the wire's errors into the contract's.
func (i *memoryInstance) lost(err error) error {
	return sandbox.FromWire(err, func() sandbox.Ending {
		<-i.done
		return i.Cause()
	})
}

func (i *memoryInstance) Run(ctx context.Context, req wire.Run, emit func(wire.Event) error) (wire.Exit, error) {
	exit, err := i.peer.Run(ctx, req, emit)
	return exit, i.lost(err)
}

func (i *memoryInstance) Call(ctx context.Context, req wire.Control, in io.Reader, out io.Writer) (wire.Reply, error) {
	reply, err := i.peer.Call(ctx, req, in, out)
	return reply, i.lost(err)
}

func (i *memoryInstance) Interrupt(ctx context.Context, run wire.RunID, level wire.Level, sweep bool) error {
	return i.lost(i.peer.Interrupt(ctx, run, level, sweep))
}

func (i *memoryInstance) Close(context.Context) error {
	i.mu.Lock()
	i.closing = true
	detached := i.detached
	i.mu.Unlock()
	if detached {
		return nil
	}
	i.end(sandbox.Ending{Cause: sandbox.Cancelled, Detail: "closed by brig"})
	if i.node.heldBy() == i { // otherwise a later brig has it
		i.node.kill()
	}
	if i.peer == nil { // never connected
		return nil
	}
	err := i.peer.Close()
	i.watching.Wait()
	return err
}
