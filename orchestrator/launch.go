package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"brig/orchestrator/sandbox"
)

// closeBound is how long closing an instance may take: the contract's ten seconds and a little.
const closeBound = 11 * time.Second

// launch is what a fresh instance is made from.
type launch struct {
	want sandbox.Kind // empty: the configured backend
	wish
	workspace string
	trial     bool          // see SessionOptions.Trial
	claim     sandbox.Claim // without an ID
}

// bound is an instance together with what it was judged by.
type bound struct {
	instance   sandbox.Instance
	limits     sandbox.Limits
	resolution Resolution
	posture    sandbox.Posture
	stamp      Stamp
	base       sandbox.Base
}

// launch resolves, prepares and binds. A backend that answered its probe and then
// cannot make an instance (it is gone a moment later, its image cannot be made) is
// passed over, unless that is a mistake in the settings, and what it said about it
// is the reason; on error nothing is left running.
func (o *Orchestrator) launch(ctx context.Context, l launch) (bound, error) {
	failed := map[sandbox.Kind]error{}
	for {
		r, err := o.resolve(ctx, question{want: l.want, wish: l.wish, failed: failed, trial: l.trial})
		if err != nil {
			return bound{}, err
		}
		b, err := o.bind(ctx, r, l)
		var cannot *sandbox.Unavailable
		if r.Err != nil || !errors.As(err, &cannot) || ctx.Err() != nil {
			return b, err
		}
		// Every turn takes a rung off the ladder, so this ends.
		failed[r.Resolved] = cannot
		o.forget(r.Resolved, o.base(r.Resolved, l.wish))
	}
}

// bind starts an instance on the resolved backend and holds it against the
// resolution. No user code has run when it is refused here.
func (o *Orchestrator) bind(ctx context.Context, r Resolution, l launch) (b bound, err error) {
	if r.Err != nil {
		return bound{}, r.Err
	}
	base := o.base(r.Resolved, l.wish)
	instance, err := o.prepare(ctx, r.Resolved, base, l)
	if err != nil {
		if r.Degraded {
			return bound{}, fmt.Errorf("start the %s sandbox, used because %s: %w", r.Resolved, strings.Join(degradedBy(r), ", and "), err)
		}
		return bound{}, fmt.Errorf("start the %s sandbox: %w", r.Resolved, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, closeInstance(ctx, instance))
		}
	}()
	return o.seal(r, base, instance, l)
}

// seal holds a bound instance against the resolution. On error the caller closes it.
func (o *Orchestrator) seal(r Resolution, base sandbox.Base, instance sandbox.Instance, l launch) (bound, error) {
	p := instance.Posture()
	if err := sandbox.Complete(p.Layers); err != nil {
		return bound{}, fmt.Errorf("read the posture of the %s sandbox: %w", r.Resolved, err)
	}
	judged := judge(r, p, o.acknowledged(), l.trial)
	if judged.Err != nil {
		return bound{}, judged.Err
	}
	return bound{instance, base.Limits, judged, p, stamp(judged, p, l.claim.Session), base}, nil
}

// prepare gets an instance for the claim. A warm one that does not fit is given
// back once; the next one is made for this workspace and has to fit.
func (o *Orchestrator) prepare(ctx context.Context, kind sandbox.Kind, base sandbox.Base, l launch) (sandbox.Instance, error) {
	for attempt := 0; ; attempt++ {
		prepared, err := o.backends[kind].Prepare(ctx, base, l.workspace)
		if err != nil {
			return nil, err
		}
		o.pool.cold()
		claim := l.claim
		claim.ID, claim.Workspace = o.newInstanceID(), l.workspace
		instance, err := prepared.Bind(ctx, claim)
		if err == nil {
			return instance, nil
		}
		closing, cancel := bounded(ctx, closeBound)
		closeErr := prepared.Close(closing)
		cancel()
		if !errors.Is(err, sandbox.ErrCold) || attempt > 0 || closeErr != nil {
			return nil, errors.Join(err, closeErr)
		}
	}
}

func (o *Orchestrator) newInstanceID() sandbox.InstanceID {
	return sandbox.InstanceID(fmt.Sprintf("%s-%d", o.options.Owner.Token(), o.numbers.Add(1)))
}

// closeInstance closes an instance whatever became of ctx.
func closeInstance(ctx context.Context, i sandbox.Instance) error {
	ctx, cancel := bounded(ctx, closeBound)
	defer cancel()
	if err := i.Close(ctx); err != nil {
		return fmt.Errorf("close instance %s: %w", i.ID(), err)
	}
	return nil
}
