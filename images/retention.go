package images

import (
	"context"
	"fmt"
	"time"
)

// tidyTimeout bounds what is tidied up after a build, whatever became of its caller.
const tidyTimeout = 30 * time.Second

// Retention is what stays of the images that a new one supersedes, so that an
// earlier brig beside this one, or the way back to it, need not build again.
type Retention struct {
	Previous int           // at most so many, those that were used last; 0: retention is off
	Age      time.Duration // and none that was not used for so long
}

// DefaultRetention is what brig keeps unless it is told otherwise.
func DefaultRetention() Retention { return Retention{Previous: 2, Age: 14 * 24 * time.Hour} }

// surplus chooses what goes when current has been built: images for the same choice
// that are not current, beyond those that stay. Only what this installation has used
// itself is looked at: on a shared engine the others belong to somebody else's brig,
// and the labels do not say whose. It decides from values alone.
func (r Retention) surplus(current Ref, all []Ref, now time.Time) []Ref {
	if r.Previous == 0 {
		return nil
	}
	var rest []Ref
	for _, x := range all {
		if x.Choice == current.Choice && x.ID != current.ID && !x.Used.IsZero() {
			rest = append(rest, x)
		}
	}
	byUse(rest)
	var out []Ref
	for n, x := range rest {
		if n >= r.Previous || now.Sub(x.Used) > r.Age {
			out = append(out, x)
		}
	}
	return out
}

// retire applies the retention. What cannot be removed stays for the next time: the
// image that was asked for is there, and a container may use an old one.
func (t *Trust) retire(ctx context.Context, b Builder, current Ref, progress func(Progress)) {
	if t.retention.Previous == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyTimeout)
	defer cancel()
	all, err := t.ours(ctx, b)
	if err != nil {
		return
	}
	for _, r := range t.retention.surplus(current, all, time.Now()) {
		if b.RemoveImage(ctx, r.ID) == nil {
			t.forgetUse(r.ID)
			progress(Progress{Note: true, Text: fmt.Sprintf("removed the superseded image %s (%.19s)", r.Tag, r.ID)})
		}
	}
}

// ours lists the runner images that brigs built on the engine, in any order.
func (t *Trust) ours(ctx context.Context, b Builder) ([]Ref, error) {
	found, err := b.FindImages(ctx, LabelKind, "runner")
	if err != nil {
		return nil, fmt.Errorf("list runner images: %w", err)
	}
	var refs []Ref
	for _, f := range found {
		if !built(f) {
			continue
		}
		ref := refOf(f)
		ref.Used = t.lastUsed(ref.ID)
		refs = append(refs, ref)
	}
	return refs, nil
}

// built tells an image that some brig built from one that stands on top of such an
// image and has inherited its labels: that one has a name of its user's only.
func built(f Found) bool {
	if len(f.Tags) == 0 {
		return true
	}
	for _, tag := range f.Tags {
		if len(local(tag)) > len(repository) && local(tag)[:len(repository)+1] == repository+":" {
			return true
		}
	}
	return false
}
