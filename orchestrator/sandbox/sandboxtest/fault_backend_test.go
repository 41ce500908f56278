package sandboxtest

import (
	"context"
	"io"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// faulty is a Memory with a fault.
type faulty struct {
	*Memory
	bindAny   bool
	bindDead  bool
	keepAny   bool
	reset     bool
	closeKept bool
	sweepAll  bool
	running   wire.RunID
	posture   func(sandbox.Posture) sandbox.Posture
	event     func(*wire.Event)
	exit      func(*wire.Exit, *error)
	interrupt func(error) error
	claim     func(*sandbox.Claim)
	call      func(wire.Op, error) error
	adopt     func(*sandbox.Adoption)
	counters  func(*sandbox.Counters)
}

type faultyPrepared struct {
	*memoryPrepared
	f *faulty
}

type faultyInstance struct {
	*memoryInstance
	f *faulty
}

func (f *faulty) Prepare(ctx context.Context, base sandbox.Base, workspace string) (sandbox.Prepared, error) {
	p, err := f.Memory.Prepare(ctx, base, workspace)
	if err != nil {
		return nil, err
	}
	return faultyPrepared{p.(*memoryPrepared), f}, nil
}

func (p faultyPrepared) Bind(ctx context.Context, c sandbox.Claim) (sandbox.Instance, error) {
	if p.f.bindAny {
		c.Workspace = p.instance.node.workspace
	}
	if p.f.claim != nil {
		p.f.claim(&c)
	}
	i, err := p.memoryPrepared.Bind(ctx, c)
	if err != nil && p.f.bindDead {
		return faultyInstance{p.instance, p.f}, nil
	}
	if err != nil {
		return nil, err
	}
	return p.f.instance(i), nil
}

// instance is i with the fault.
func (f *faulty) instance(i sandbox.Instance) sandbox.Instance {
	spoilt := faultyInstance{memoryOf(i), f}
	if _, kept := i.(*keptInstance); kept || f.keepAny {
		return faultyKept{spoilt}
	}
	return spoilt
}

// Adopt implements sandbox.Adopter.
func (f *faulty) Adopt(ctx context.Context, a sandbox.Adoption) (sandbox.Instance, error) {
	if f.adopt != nil {
		f.adopt(&a)
	}
	i, err := f.Memory.Adopt(ctx, a)
	if err != nil {
		return nil, err
	}
	if f.reset {
		if _, err := i.Call(ctx, wire.Control{Op: wire.OpReset}, nil, nil); err != nil {
			return nil, err
		}
	}
	return f.instance(i), nil
}

// Sweep implements sandbox.Backend.
func (f *faulty) Sweep(ctx context.Context, owner string, keep func(sandbox.InstanceID) bool) (int, error) {
	return f.Memory.Sweep(ctx, owner, func(id sandbox.InstanceID) bool { return keep(id) && !f.sweepAll })
}

// faultyKept is a faulty Keepable.
type faultyKept struct{ faultyInstance }

func (i faultyKept) Handle() sandbox.Handle { return (&keptInstance{i.memoryInstance}).Handle() }

func (i faultyKept) Detach(ctx context.Context) error {
	return (&keptInstance{i.memoryInstance}).Detach(ctx)
}

func (i faultyKept) Close(ctx context.Context) error {
	if i.f.closeKept {
		i.node.kill()
	}
	return i.memoryInstance.Close(ctx)
}

func (i faultyInstance) Counters() (sandbox.Counters, bool) {
	c, ok := i.memoryInstance.Counters()
	if i.f.counters != nil {
		i.f.counters(&c)
	}
	return c, ok
}

func (i faultyInstance) Call(ctx context.Context, req wire.Control, in io.Reader, out io.Writer) (wire.Reply, error) {
	reply, err := i.memoryInstance.Call(ctx, req, in, out)
	if i.f.call != nil {
		err = i.f.call(req.Op, err)
	}
	return reply, err
}

func (i faultyInstance) Posture() sandbox.Posture {
	if i.f.posture == nil {
		return i.memoryInstance.Posture()
	}
	return i.f.posture(i.memoryInstance.Posture())
}

func (i faultyInstance) Run(ctx context.Context, req wire.Run, emit func(wire.Event) error) (wire.Exit, error) {
	i.f.running = req.ID
	exit, err := i.memoryInstance.Run(ctx, req, func(e wire.Event) error {
		if i.f.event != nil {
			i.f.event(&e)
		}
		return emit(e)
	})
	if i.f.exit != nil {
		i.f.exit(&exit, &err)
	}
	return exit, err
}

func (i faultyInstance) Interrupt(ctx context.Context, run wire.RunID, level wire.Level, sweep bool) error {
	err := i.memoryInstance.Interrupt(ctx, run, level, sweep)
	if i.f.interrupt != nil {
		return i.f.interrupt(err)
	}
	return err
}
