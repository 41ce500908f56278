package docker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"brig/images"
)

const (
	// sayAfter is how long a start may take before it is said what is waited for.
	sayAfter = 5 * time.Second
	// attendAfter is how long one may take before the engine is asked whether it
	// lives: most are over by then.
	attendAfter = time.Second
)

// errSilent is the cause of a context that attend has ended.
var errSilent = errors.New("the engine stopped answering")

// attend returns a ctx for work that an engine does, which ends when the engine has
// answered nothing for so long, not even a ping. Work that goes on says after a while
// what it waits for; work that speaks for itself does so only when the engine is
// silent. stop ends the watch and the ctx.
func (b *Backend) attend(ctx context.Context, e *engine, most time.Duration, speaks bool) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		began := time.Now()
		heard, said := began, false
		tick := time.NewTicker(min(b.patience.beat, attendAfter))
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if time.Since(began) < min(attendAfter, most) {
				continue
			}
			asked := time.Now()
			asking, done := context.WithTimeout(ctx, min(askTimeout, most))
			if e.pings(asking) {
				heard = asked
			}
			done()
			if ctx.Err() != nil {
				return
			}
			if time.Since(heard) >= most {
				cancel(fmt.Errorf("%w: nothing for %s", errSilent, most))
				return
			}
			since := began
			if speaks {
				since = heard
			}
			if !said && b.options.Progress != nil && time.Since(since) >= sayAfter {
				said = true
				b.options.Progress(images.Progress{Note: true, Text: "waiting for the engine at " + e.endpoint})
			}
		}
	})
	return ctx, func() {
		cancel(nil)
		watching.Wait()
	}
}
