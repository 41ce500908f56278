package images

import (
	"context"
	"errors"
	"fmt"
	"sort"
)

// Condition is what an engine has of a tier.
type Condition string

const (
	Ready   Condition = "ready"   // the trusted image is there
	Stale   Condition = "stale"   // only images of another content or base are there
	Missing Condition = "missing" // none is there
)

// State describes one tier on one engine.
type State struct {
	Tier      Tier
	Condition Condition
	Want      string // content hash that this brig trusts
	Tag       string // under which a build would put it
	Base      string // reference of the base image
	BaseID    string // empty: the engine does not have it
	Current   *Ref   // when Ready
	Others    []Ref  // images of this tier that are not trusted, newest first
	Remedy    string // the next command, when not Ready
}

// Status asks the engine what it has of every tier; it changes nothing.
func (t *Trust) Status(ctx context.Context, b Builder) ([]State, error) {
	base, err := t.baseID(ctx, b)
	if err != nil {
		return nil, err
	}
	found, err := b.FindImages(ctx, LabelKind, "runner")
	if err != nil {
		return nil, fmt.Errorf("list runner images: %w", err)
	}
	var states []State
	for _, tier := range Tiers() {
		content, err := ContentHash(tier)
		if err != nil {
			return nil, err
		}
		state := State{
			Tier: tier, Condition: Missing, Want: content, Tag: Tag(tier, content), Base: t.base, BaseID: base,
		}
		current, ok, err := pick(ctx, b, tier, content, base)
		if err != nil {
			return nil, err
		}
		if ok {
			state.Condition, state.Current = Ready, &current
		}
		for _, f := range found {
			if r := refOf(f); r.Tier == tier && (!ok || r.ID != current.ID) {
				state.Others = append(state.Others, r)
			}
		}
		sort.Slice(state.Others, func(i, j int) bool {
			return state.Others[i].Created.After(state.Others[j].Created)
		})
		if !ok && len(state.Others) > 0 {
			state.Condition = Stale
		}
		switch {
		case ok:
		case base == "":
			state.Remedy = (&MissingBaseError{Base: t.base}).Remedy()
		default:
			state.Remedy = "brig image build --tier " + string(tier)
		}
		states = append(states, state)
	}
	return states, nil
}

// Prune removes the runner images that are not trusted and that no container
// uses, and what builds left as cache. It returns the IDs it removed; images that
// the engine would not give up are joined in the error.
func (t *Trust) Prune(ctx context.Context, b Builder) ([]string, error) {
	states, err := t.Status(ctx, b)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, s := range states {
		for _, r := range s.Others {
			ids = append(ids, r.ID)
		}
	}
	cache, err := b.FindImages(ctx, LabelKind, "build")
	if err != nil {
		return nil, fmt.Errorf("list build stages: %w", err)
	}
	for _, f := range cache {
		ids = append(ids, f.ID)
	}
	var removed []string
	var failed []error
	for _, id := range ids {
		if err := b.RemoveImage(ctx, id); err != nil {
			failed = append(failed, fmt.Errorf("remove image %.19s: %w", id, err))
			continue
		}
		removed = append(removed, id)
	}
	return removed, errors.Join(failed...)
}
