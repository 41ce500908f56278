package images

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sort"
	"sync"
	"time"

	"brig/orchestrator/runner"
)

// DefaultBase is what the images of the tiers are built from.
const DefaultBase = "debian:trixie-slim"

// MissingBaseError says that an image has to be built and its base is not there.
// brig never pulls by itself: what comes from a registry is the user's decision.
type MissingBaseError struct{ Base string }

func (e *MissingBaseError) Error() string {
	return fmt.Sprintf("the base image %s is not on this engine (for one without a registry see docs/images.md); get it with: %s", e.Base, e.Remedy())
}

// Remedy is the command to type.
func (e *MissingBaseError) Remedy() string { return "docker pull " + e.Base }

// Options of a Trust.
type Options struct {
	// Base replaces DefaultBase.
	Base string
	// Env gives the mirror settings that a build honours: see mirrorArgs. nil means none.
	Env func(string) (string, bool)
	// Cache is a directory of this user: there lie the locks that keep several brigs
	// from building the same thing at once, and when each image was used last. Empty
	// means neither; two builds at once are then only slower.
	Cache string
	// Retention is what becomes of superseded images after a build. The zero value
	// removes nothing.
	Retention Retention
	// BuildLimit bounds a build, and SilenceLimit how long a build on a user's image may
	// say nothing: its one step takes seconds. Zero means 20 minutes and 2 minutes.
	BuildLimit, SilenceLimit time.Duration
}

// Trust finds and builds runner images on one engine. It may be used concurrently.
type Trust struct {
	base      string
	env       func(string) (string, bool)
	cache     string
	retention Retention
	limit     time.Duration
	silence   time.Duration

	mu    sync.Mutex
	turns map[string]chan struct{} // by what is built together: one build at a time
}

// New returns a Trust. It asks nothing of any engine.
func New(o Options) *Trust {
	if o.Base == "" {
		o.Base = DefaultBase
	}
	if o.Env == nil {
		o.Env = func(string) (string, bool) { return "", false }
	}
	return &Trust{
		base: o.Base, env: o.Env, cache: o.Cache, retention: o.Retention, turns: map[string]chan struct{}{},
		limit: cmp.Or(o.BuildLimit, 20*time.Minute), silence: cmp.Or(o.SilenceLimit, 2*time.Minute),
	}
}

// group names what is never built at the same time: the tiers, because they share
// their first steps, and each of the user's own images for itself, so that one that
// does not come to an end keeps nobody else waiting.
func (c Choice) group() string {
	if c.Reference != "" {
		return c.String()
	}
	return "tiers"
}

// turn is free for one caller of this process at a time.
func (t *Trust) turn(c Choice) chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	turn, known := t.turns[c.group()]
	if !known {
		turn = make(chan struct{}, 1)
		t.turns[c.group()] = turn
	}
	return turn
}

// Ensure returns the trusted image of the choice and builds it when the engine does
// not have it, or has it on another base than the one there now. Brigs of one user
// build one after the other and do not build twice; waiting is a Progress with Note
// set and ends with ctx. The error is a *MissingBaseError where a build is needed and
// its base is missing, and an *OwnImageError where the user's image cannot be used.
func (t *Trust) Ensure(ctx context.Context, b Builder, c Choice, progress func(Progress)) (Ref, error) {
	return t.ensure(ctx, b, c, progress, false)
}

// Rebuild is Ensure that builds even where the trusted image is there. The engine's
// build cache makes that quick unless the base has changed.
func (t *Trust) Rebuild(ctx context.Context, b Builder, c Choice, progress func(Progress)) (Ref, error) {
	return t.ensure(ctx, b, c, progress, true)
}

func (t *Trust) ensure(ctx context.Context, b Builder, c Choice, progress func(Progress), always bool) (Ref, error) {
	if progress == nil {
		progress = func(Progress) {}
	}
	turn := t.turn(c)
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return Ref{}, context.Cause(ctx)
	}
	if !always {
		w, err := t.wanted(ctx, b, c)
		if err != nil {
			return Ref{}, err
		}
		if ref, found, err := t.pick(ctx, b, w); err != nil || found {
			t.markUsed(ref)
			return ref, err
		}
	}
	machine, err := b.Machine(ctx)
	if err != nil {
		return Ref{}, err
	}
	unlock, err := t.lock(ctx, machine, c, progress)
	if err != nil {
		return Ref{}, err
	}
	defer unlock()
	return t.build(ctx, b, c, machine, progress, always)
}

// build needs the lock, and looks again: whoever had it may have built the same.
func (t *Trust) build(ctx context.Context, b Builder, c Choice, machine Machine, progress func(Progress), always bool) (Ref, error) {
	w, err := t.wanted(ctx, b, c)
	if err != nil {
		return Ref{}, err
	}
	if ref, found, err := t.pick(ctx, b, w); err != nil || found && !always {
		t.markUsed(ref)
		return ref, err
	}
	if w.base.ID == "" {
		return Ref{}, &MissingBaseError{Base: t.base}
	}
	if have := w.base.Architecture; machine.Architecture != "" && have != "" && have != machine.Architecture {
		return Ref{}, foreign(c, t.base, have, machine.Architecture)
	}
	if err := t.run(ctx, b, w, progress, always); err != nil {
		t.markFailed(w, err)
		return Ref{}, fmt.Errorf("build the %s: %w", c.Name(), err)
	}
	t.markFailed(w, nil)
	ref, found, err := t.pick(ctx, b, w)
	if err != nil {
		return Ref{}, err
	}
	if !found {
		return Ref{}, fmt.Errorf("build the %s: the engine reports success but has no image with the label %s=%s",
			c.Name(), LabelContent, w.content)
	}
	ref.Built = true
	t.markUsed(ref)
	t.retire(ctx, b, ref, progress)
	return ref, nil
}

func foreign(c Choice, base, have, want string) error {
	if c.Reference != "" {
		base = c.Reference
	}
	return &OwnImageError{
		Reference: base, Code: "image-architecture",
		Reason: fmt.Sprintf("is made for %s, and the engine's machine is %s", have, want),
		Next:   fmt.Sprintf("docker pull --platform linux/%s %s", want, base),
	}
}

// wanted is what would be trusted now.
type wanted struct {
	recipe
	base Details // ID empty: the engine does not have it
}

// wanted looks at the base. The base of a tier may be missing, as long as nothing
// has to be built; what the user's own reference means cannot be known without it.
func (t *Trust) wanted(ctx context.Context, b Builder, c Choice) (wanted, error) {
	name := t.base
	if c.Reference != "" {
		name = c.Reference
	}
	base, err := b.Inspect(ctx, name)
	missing := errors.Is(err, ErrNoImage)
	if err != nil && !missing {
		return wanted{}, fmt.Errorf("look up the image %s: %w", name, err)
	}
	if c.Reference == "" {
		r, err := tierRecipe(c.Tier)
		return wanted{recipe: r, base: base}, err
	}
	if missing {
		reason := "is not on this engine, and brig pulls nothing by itself"
		if tier, unknown := ParseTier(name); unknown == nil {
			reason += fmt.Sprintf(" (the tier of that name is --tier %s)", tier)
		}
		return wanted{}, &OwnImageError{Reference: name, Code: "image-missing", Reason: reason, Next: "docker pull " + name, Err: err}
	}
	r, err := ownRecipe(c, base)
	return wanted{recipe: r, base: base}, err
}

// pick chooses among the images with that content.
func (t *Trust) pick(ctx context.Context, b Builder, w wanted) (Ref, bool, error) {
	found, err := b.FindImages(ctx, LabelContent, w.content)
	if err != nil {
		return Ref{}, false, fmt.Errorf("look for the %s: %w", w.choice.Name(), err)
	}
	var refs []Ref
	for _, f := range found {
		if ref := refOf(f); distrust(ref, w) == "" {
			refs = append(refs, t.known(ref, w))
		}
	}
	if len(refs) == 0 {
		return Ref{}, false, nil
	}
	newestFirst(refs)
	return refs[0], true, nil
}

// known adds what no label says.
func (t *Trust) known(r Ref, w wanted) Ref {
	r.Used, r.Choice = t.lastUsed(r.ID), w.choice
	if w.choice.Reference != "" && len(w.base.Digests) > 0 {
		r.Digest = w.base.Digests[0]
	}
	return r
}

func newestFirst(refs []Ref) {
	sort.Slice(refs, func(i, j int) bool {
		if !refs[i].Created.Equal(refs[j].Created) {
			return refs[i].Created.After(refs[j].Created)
		}
		return refs[i].ID < refs[j].ID
	})
}

// same tells whether an image is one for that choice. The same image of a user's may
// be called in several ways.
func (w wanted) same(r Ref) bool {
	return r.Choice == w.choice || w.choice.Reference != "" && r.Choice.Reference != "" && r.Content == w.content
}

// distrust says why an image is not the wanted one; empty means that it is. This is
// the whole rule. The labels are claims that any image can make, also one that came
// from a registry; the name in brig's local repository is what only users of the
// engine can give.
func distrust(r Ref, w wanted) string {
	switch {
	case !w.same(r):
		return "another image"
	case r.Tag == "":
		return "not under brig's name"
	case r.Runner != runner.Hash():
		return "made by another version of brig"
	case w.base.ID != "" && r.Base != w.base.ID && w.choice.Reference != "":
		return "the tag " + w.choice.Reference + " moved"
	case w.base.ID != "" && r.Base != w.base.ID:
		return "the base image changed"
	case r.Content != w.content:
		return "the recipe or the pinned libraries changed"
	}
	return ""
}
