package sandboxtest

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"time"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// The fake keeps an instance across brigs as follows. A runner whose Base had a
// Lease survives the end of its connection: its interpreter, its children and a
// run that is on go on, and nobody hears them. Adopt gives it a new pair of pipes
// and greets it again. That is where it differs from the product: there the same
// byte stream goes on and both ends must find a place where frames begin (see
// wire.Resume), here each connection begins at its beginning. The lease counts from
// the end of a connection, because in memory a connection that is up is never silent.

// settleGrace is how long a program may last after each of the two interrupts
// with which Adopt ends it.
const settleGrace = 300 * time.Millisecond

var _ sandbox.Adopter = (*Memory)(nil)

// Successor is the backend of a later brig of the same owner on the same
// machine: it finds there what this one left.
func (m *Memory) Successor() *Memory {
	next := NewMemory(m.o)
	next.machine = m.machine
	return next
}

// Crash does what it means for the fake when the brig that uses it is killed:
// every connection ends without a word. Instances with a lease live on for that
// long, all others end; closing either does nothing any more.
func (m *Memory) Crash() {
	for _, n := range m.machine.all(func(*node) bool { return true }) {
		i := n.heldBy()
		if i == nil || i.backend != m {
			continue
		}
		i.letGo(sandbox.Ending{Cause: sandbox.BackendLost, Detail: "the brig that held it was killed"})
	}
}

// Adopt implements sandbox.Adopter.
func (m *Memory) Adopt(ctx context.Context, a sandbox.Adoption) (sandbox.Instance, error) {
	if err := m.usable(ctx); err != nil {
		return nil, err
	}
	n := m.machine.named(a.Handle.Name)
	switch {
	case n == nil || n.dying() || n.base.Lease == 0 || n.owner != m.o.Owner:
		return nil, fmt.Errorf("adopt %s: %w", a.Handle.Name, sandbox.ErrGone)
	case n.instanceID() != a.ID || n.base != a.Base || n.workspace != a.Workspace:
		return nil, fmt.Errorf("adopt %s: it is another one: %w", a.Handle.Name, sandbox.ErrGone)
	case subtle.ConstantTimeCompare([]byte(n.secret), []byte(a.Handle.Secret)) == 0:
		return nil, fmt.Errorf("adopt %s: the runner refused the secret", a.Handle.Name)
	}
	i := m.instance(n)
	i.id = a.ID
	if err := n.connect(ctx, i); err != nil {
		return nil, fmt.Errorf("adopt %s: %w", a.Handle.Name, errors.Join(err, i.Close(context.WithoutCancel(ctx))))
	}
	if err := n.settle(ctx); err != nil {
		i.letGo(sandbox.Ending{Cause: sandbox.Cancelled, Detail: "let go"})
		return nil, fmt.Errorf("adopt %s: %w", a.Handle.Name, err)
	}
	return &keptInstance{i}, nil
}

// settle ends what an earlier brig was running, softly first.
func (n *node) settle(ctx context.Context) error {
	n.runner.mu.Lock()
	c := n.runner.current
	n.runner.mu.Unlock()
	if c == nil {
		return nil
	}
	for _, level := range []wire.Level{wire.Soft, wire.Hard} {
		// Not running any more is as good.
		_ = n.runner.interrupt(wire.ControlArgs{Run: c.run.ID, Level: level})
		timer := time.NewTimer(settleGrace)
		defer timer.Stop()
		select {
		case <-c.told:
			return nil
		case <-n.ended:
			return sandbox.ErrGone
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
		}
	}
	return errors.New("the run of an earlier brig does not end")
}

// keptInstance implements sandbox.Keepable: an instance with a lease.
type keptInstance struct{ *memoryInstance }

var _ sandbox.Keepable = (*keptInstance)(nil)

// Handle implements sandbox.Keepable.
func (i *keptInstance) Handle() sandbox.Handle {
	return sandbox.Handle{Name: i.node.name, Secret: i.node.secret}
}

// Detach implements sandbox.Keepable.
func (i *keptInstance) Detach(context.Context) error {
	i.letGo(sandbox.Ending{Cause: sandbox.Cancelled, Detail: "let go, to be taken up by a later brig"})
	return nil
}

// letGo closes the connection and leaves the rest to the lease.
func (i *memoryInstance) letGo(e sandbox.Ending) {
	i.mu.Lock()
	if !i.closing {
		i.detached = true
	}
	i.mu.Unlock()
	i.end(e)
	_ = i.peer.Close() // pipes in memory close without an error
	i.watching.Wait()
}
