package images

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// shortestID is how much of an ID names an image at least.
const shortestID = 4

// Select lists the images that a selection means, without removing any. Images that
// brig did not build are never among them. A name that means none is an
// *UnknownImageError; what the other names mean is returned beside it.
func (t *Trust) Select(ctx context.Context, b Builder, s Selection) ([]Candidate, error) {
	states, err := t.Status(ctx, b)
	if err != nil {
		return nil, err
	}
	uses, err := b.Uses(ctx)
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	var all []Candidate
	stale, listed := map[string]bool{}, map[string]bool{}
	for _, state := range states {
		if r := state.Current; r != nil && !listed[r.ID] { // one that has several names is listed once
			listed[r.ID] = true
			all = append(all, Candidate{ID: r.ID, Tag: r.Tag, Choice: r.Choice, Why: "asked for", Size: r.Size, Created: r.Created, Used: uses[r.ID], Mine: !r.Used.IsZero()})
		}
		for _, o := range state.Others {
			stale[o.ID] = true
			all = append(all, Candidate{ID: o.ID, Tag: o.Tag, Choice: o.Choice, Why: o.Why, Size: o.Size, Created: o.Created, Used: uses[o.ID], Mine: !o.Used.IsZero()})
		}
	}
	stages, err := t.Stages(ctx, b)
	if err != nil {
		return nil, err
	}
	for _, f := range stages {
		stale[f.ID] = true
		all = append(all, Candidate{ID: f.ID, Why: "cache of a build", Size: f.Size, Created: f.Created, Used: uses[f.ID]})
	}
	chosen := map[string]bool{}
	var unknown []error
	for _, name := range s.Names {
		if err := match(all, name, chosen); err != nil {
			unknown = append(unknown, err)
		}
	}
	return slices.DeleteFunc(all, func(c Candidate) bool {
		return !s.All && !chosen[c.ID] && (!s.Stale || !stale[c.ID])
	}), errors.Join(unknown...)
}

// match marks what a name means: every image of a tier or of a user's image, or one
// image by its tag or the beginning of its ID.
func match(all []Candidate, name string, chosen map[string]bool) error {
	found := 0
	for _, c := range all { // a tag is one image's, whatever else is called so
		if c.Tag != "" && (name == c.Tag || name == local(c.Tag)) {
			chosen[c.ID] = true
			return nil
		}
	}
	for _, c := range all {
		if c.Choice != (Choice{}) && (name == string(c.Choice.Tier) || name == c.Choice.Reference) {
			chosen[c.ID] = true
			found++
		}
	}
	if found > 0 {
		return nil
	}
	digits := strings.TrimPrefix(name, "sha256:")
	if len(digits) >= shortestID {
		for _, c := range all {
			if strings.HasPrefix(strings.TrimPrefix(c.ID, "sha256:"), digits) {
				chosen[c.ID] = true
				found++
			}
		}
	}
	switch {
	case found == 0:
		return &UnknownImageError{Name: name}
	case found > 1:
		return &UnknownImageError{Name: name, Many: true}
	}
	return nil
}

// Remove removes candidates and returns those that are gone. What a container uses
// stays; what the engine would not give up is joined in the error.
func (t *Trust) Remove(ctx context.Context, b Builder, candidates []Candidate) ([]Candidate, error) {
	var removed []Candidate
	var failed []error
	left := candidates
	for len(left) > 0 { // a stage can only go after what was built on it
		var again []Candidate
		var refused []error
		for _, c := range left {
			err := b.RemoveImage(ctx, c.ID)
			switch {
			case err == nil:
				t.forgetUse(c.ID)
				removed = append(removed, c)
			case errors.Is(err, ErrInUse) && c.Used == 0 && ctx.Err() == nil:
				again = append(again, c)
				refused = append(refused, fmt.Errorf("remove image %.19s: %w", c.ID, err))
			case errors.Is(err, ErrInUse) && c.Used > 0:
				failed = append(failed, &UsedImageError{Candidate: c, Err: err})
			default:
				failed = append(failed, fmt.Errorf("remove image %.19s: %w", c.ID, err))
			}
		}
		if len(again) == len(left) {
			failed = append(failed, refused...)
			break
		}
		left = again
	}
	return removed, errors.Join(failed...)
}

// UsedImageError says that an image stays because containers use it.
type UsedImageError struct {
	Candidate
	Err error
}

func (e *UsedImageError) Error() string {
	name := e.Tag
	if name == "" {
		name = e.ID
	}
	return fmt.Sprintf("the image %s stays, because %s", name, e.User())
}
func (e *UsedImageError) Unwrap() error { return e.Err }

// User says in half a sentence who uses it.
func (c Candidate) User() string {
	if c.Used == 1 {
		return "a container uses it"
	}
	return fmt.Sprintf("%d containers use it", c.Used)
}
