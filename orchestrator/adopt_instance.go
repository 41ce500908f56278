package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"brig/orchestrator/sandbox"
)

// takeUpBound is how long taking up one instance may take: an engine that is
// starting, a run that has to be ended by force.
const takeUpBound = 45 * time.Second

// errPutDown goes with sandbox.ErrGone where brig itself ended what it found.
var errPutDown = errors.New("it was ended")

// putDownError says why an instance that lives was ended instead of taken up.
type putDownError struct{ why error }

func (e *putDownError) Error() string { return fmt.Sprintf("its instance was ended: %v", e.why) }
func (e *putDownError) Unwrap() error { return e.why }
func (e *putDownError) Is(target error) bool {
	return target == errPutDown || target == sandbox.ErrGone
}

// takeUp connects to an instance that has none and holds it against a resolution
// made now, exactly as launch does with a fresh one. sandbox.ErrGone: it does not
// live any more. One that lives and may not, by its posture or by the settings, is
// ended, and that is ErrGone too. On any other error it is as it was.
func (o *Orchestrator) takeUp(ctx context.Context, l launch, lost *lostInstance) (bound, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, takeUpBound, errTooSlow)
	defer cancel()
	adopter, can := o.backends[lost.kind].(sandbox.Adopter)
	if !can || lost.adoption.Handle.Name == "" {
		return bound{}, fmt.Errorf("the %s sandbox ended with the brig that started it: %w", lost.kind, sandbox.ErrGone)
	}
	r, err := o.resolve(ctx, question{want: l.want, wish: l.wish, trial: l.trial})
	if err != nil {
		return bound{}, err
	}
	if unfit := o.unfit(r, l, lost); unfit != nil {
		if err := o.putDown(ctx, lost); err != nil {
			return bound{}, errors.Join(unfit, err)
		}
		return bound{}, &putDownError{unfit}
	}
	if r.Resolved != lost.kind {
		return bound{}, o.unreachable(r, lost.kind)
	}
	instance, err := adopter.Adopt(ctx, lost.adoption)
	if err != nil {
		return bound{}, err
	}
	b, err := o.seal(r, lost.adoption.Base, instance, l)
	if err != nil {
		return bound{}, &putDownError{errors.Join(err, closeInstance(ctx, instance))}
	}
	return b, nil
}

// unfit says why the settings in force do not allow an instance, whether it can be
// reached or not.
func (o *Orchestrator) unfit(r Resolution, l launch, lost *lostInstance) error {
	base := o.base(lost.kind, l.wish)
	base.Lease = lost.adoption.Base.Lease // how long it waits widens nothing
	if base != lost.adoption.Base {
		return errors.New("the settings that it was started with have changed")
	}
	i := slices.IndexFunc(r.Refusals, func(refusal Refusal) bool { return refusal.Kind == lost.kind })
	if r.Resolved == lost.kind || i >= 0 && !byRule(r.Refusals[i].Code) {
		return nil
	}
	if r.Err != nil {
		return r.Err
	}
	return fmt.Errorf("the settings lead to the %s sandbox now", r.Resolved)
}

// byRule says that a refusal follows from settings and rules, so that waiting for
// the backend would not help.
func byRule(code string) bool {
	switch code {
	case CodeSwitchedOff, CodeUnknown, CodeMissing, CodeDevelopment, CodeIncomplete, CodeUnverified, CodeUnacknowledged:
		return true
	}
	return false
}

func (o *Orchestrator) unreachable(r Resolution, kind sandbox.Kind) error {
	for _, refusal := range r.Refusals {
		if refusal.Kind == kind {
			return &RefusedError{Refusal: refusal, Met: []Refusal{refusal}}
		}
	}
	panic("BUG: a backend was neither resolved nor refused")
}

// putDown ends an instance without taking it up first.
func (o *Orchestrator) putDown(ctx context.Context, lost *lostInstance) error {
	if lost.instance != nil {
		return closeInstance(ctx, lost.instance)
	}
	backend, there := o.backends[lost.kind]
	if !there || lost.adoption.Handle.Name == "" {
		return nil
	}
	id := lost.adoption.Handle.Label
	if id == "" {
		id = lost.adoption.ID
	}
	ctx, cancel := bounded(ctx, closeBound)
	defer cancel()
	_, err := backend.Sweep(ctx, o.options.Owner.ID(), func(other sandbox.InstanceID) bool { return other != id })
	if err != nil {
		return fmt.Errorf("end instance %s, which ends by itself within %s: %w", id, lost.adoption.Base.Lease, err)
	}
	return nil
}
