package docker

import (
	"context"
	"fmt"
	"time"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// keptInstance is an instance with a lease: its container goes on without brig's
// stream, until a later brig takes it up or the lease ends.
type keptInstance struct {
	*instance
	handle sandbox.Handle
}

var _ sandbox.Keepable = (*keptInstance)(nil)

// Handle names the container by its id, which is never used twice.
func (k *keptInstance) Handle() sandbox.Handle { return k.handle }

// Detach closes brig's end and leaves the container to its lease. It is what ends
// an instance whose stream was lost while its container may still run, too.
func (k *keptInstance) Detach(ctx context.Context) error {
	k.closing.Do(func() {
		k.end(sandbox.Ending{Cause: sandbox.Cancelled, Detail: "left to a later brig"})
		go func() { // waited for by everyone who waits for closed
			defer close(k.closed)
			k.closeErr = k.peer.Close()
			k.box.free()
			k.watching.Wait()
		}()
	})
	select {
	case <-k.closed:
		return k.closeErr
	case <-ctx.Done():
		return fmt.Errorf("detach: %w", context.Cause(ctx))
	}
}

// wrap makes an instance what the lease of its container makes it.
func (i *instance) wrap(lease time.Duration, secret string) sandbox.Instance {
	if lease <= 0 {
		return i
	}
	return &keptInstance{instance: i, handle: sandbox.Handle{Name: i.box.id, Secret: secret, Label: i.box.label}}
}

// renewals is how often a lease, or a silence, is renewed within its time: a machine
// that stands still for two of them loses nothing.
const renewals = 4

// renew is heard by a runner for as long as brig is connected, whether a session has
// it or waits for one, so that a lease, or a silence where there is none, does not
// end it. free waits for its end.
func (x *box) renew(peer *wire.Peer, lease time.Duration) {
	if lease <= 0 {
		lease = x.patience.silence
	}
	if lease <= 0 {
		return
	}
	x.renewing.Go(func() {
		tick := time.NewTicker(lease / renewals)
		defer tick.Stop()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		for {
			select {
			case <-peer.Done():
				return
			case <-tick.C:
			}
			// One that is not answered yet is as good: it waits for the runner to read it.
			asking, done := context.WithTimeout(ctx, lease/renewals)
			_ = peer.Ping(asking)
			done()
		}
	})
}
