package images

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"time"
)

// Condition is what an engine has of a choice.
type Condition string

const (
	Ready    Condition = "ready"    // the trusted image is there
	Stale    Condition = "stale"    // only superseded ones are there
	Missing  Condition = "missing"  // none is there
	Unusable Condition = "unusable" // the user's own image cannot be used
)

// State describes one choice on one engine.
type State struct {
	Choice    Choice
	Condition Condition
	Want      string // content hash that this brig trusts; empty when Unusable
	Tag       string // under which a build would put it
	Base      string // reference of the base image
	BaseID    string // empty: the engine does not have it
	Current   *Ref   // when Ready
	Others    []Superseded
	Reason    string // why, when Stale or Unusable
	Remedy    string // the next command, when not Ready
	Err       error  // when Unusable: an *OwnImageError
}

// Superseded is an image for the same choice that is not trusted.
type Superseded struct {
	Ref
	Why string
}

// Look asks the engine what it has of one choice; it changes nothing.
func (t *Trust) Look(ctx context.Context, b Builder, c Choice) (State, error) {
	all, err := t.ours(ctx, b)
	if err != nil {
		return State{}, err
	}
	return t.state(ctx, b, c, all)
}

// Status asks the engine what it has of every tier, of the choices that are named
// besides, and of users' images that were built on before; it changes nothing.
func (t *Trust) Status(ctx context.Context, b Builder, besides ...Choice) ([]State, error) {
	all, err := t.ours(ctx, b)
	if err != nil {
		return nil, err
	}
	var choices []Choice
	seen := map[Choice]bool{}
	add := func(c Choice) {
		if !seen[c] {
			seen[c] = true
			choices = append(choices, c)
		}
	}
	for _, tier := range Tiers() {
		add(Choice{Tier: tier})
	}
	for _, c := range besides {
		add(c)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Choice.Reference < all[j].Choice.Reference })
	for _, r := range all {
		if r.Choice.Reference != "" {
			add(r.Choice)
		}
	}
	var states []State
	for _, c := range choices {
		s, err := t.state(ctx, b, c, all)
		if err != nil {
			return nil, err
		}
		states = append(states, s)
	}
	return states, nil
}

func (t *Trust) state(ctx context.Context, b Builder, c Choice, all []Ref) (State, error) {
	s := State{Choice: c, Condition: Missing, Base: t.base}
	if c.Reference != "" {
		s.Base = c.Reference
	}
	w, err := t.wanted(ctx, b, c)
	var unusable *OwnImageError
	switch {
	case errors.As(err, &unusable):
		s.Condition, s.Reason, s.Remedy, s.Err = Unusable, unusable.Reason, unusable.Next, unusable
	case err != nil:
		return State{}, err
	default:
		s.Want, s.Tag, s.BaseID = w.content, Tag(c, w.content), w.base.ID
	}
	for _, r := range all {
		switch {
		case r.Choice != c && (unusable != nil || !w.same(r)):
		case unusable != nil:
			s.Others = append(s.Others, Superseded{r, "the image that it was built on " + unusable.Reason})
		case distrust(r, w) != "":
			s.Others = append(s.Others, Superseded{r, distrust(r, w)})
		case s.Current == nil || r.Created.After(s.Current.Created):
			current := t.known(r, w)
			if s.Current != nil {
				s.Others = append(s.Others, Superseded{*s.Current, "built again"})
			}
			s.Current = &current
		default:
			s.Others = append(s.Others, Superseded{r, "built again"})
		}
	}
	sort.SliceStable(s.Others, func(i, j int) bool { return s.Others[i].Created.After(s.Others[j].Created) })
	if s.Current == nil && unusable == nil {
		if unusable = t.failed(w); unusable != nil {
			s.Condition, s.Reason, s.Remedy, s.Err = Unusable, unusable.Reason, unusable.Next, unusable
		}
	}
	switch {
	case s.Condition == Unusable:
	case s.Current != nil:
		s.Condition = Ready
	case s.BaseID == "":
		s.Remedy = (&MissingBaseError{Base: t.base}).Remedy()
	default:
		s.Remedy = c.Command()
	}
	if s.Condition == Missing && len(s.Others) > 0 {
		s.Condition, s.Reason = Stale, s.Others[0].Why
	}
	return s, nil
}

// byUse puts those first that were of use last.
func byUse(refs []Ref) {
	sort.Slice(refs, func(i, j int) bool {
		if a, b := refs[i].Used, refs[j].Used; !a.Equal(b) {
			return a.After(b)
		}
		return refs[i].ID < refs[j].ID
	})
}

// Stages lists what builds left on the engine as a cache for the next one.
func (t *Trust) Stages(ctx context.Context, b Builder) ([]Found, error) {
	found, err := b.FindImages(ctx, LabelKind, "build")
	if err != nil {
		return nil, fmt.Errorf("list build stages: %w", err)
	}
	sort.Slice(found, func(i, j int) bool { return found[i].Created.After(found[j].Created) })
	return found, nil
}

// Selection says which images Select takes.
type Selection struct {
	Names []string // tiers, tags, references of users' images, or the beginning of an ID
	Stale bool     // everything that is not trusted, and what builds left as cache
	All   bool     // everything of brig's
}

// Candidate is an image that would be removed.
type Candidate struct {
	ID      string
	Tag     string
	Choice  Choice // the zero value for a stage of a build
	Why     string
	Size    int64 // bytes, with what it shares with others
	Created time.Time
	Used    int  // containers that use it; then it cannot be removed
	Mine    bool // this installation has used it
}

// UnknownImageError says that a name means no image of brig's on this engine.
type UnknownImageError struct {
	Name string
	Many bool // it could be several
}

func (e *UnknownImageError) Error() string {
	if e.Many {
		return fmt.Sprintf("%q is the beginning of several images' ids", e.Name)
	}
	return fmt.Sprintf("no image of brig's on this engine is called %q", e.Name)
}
