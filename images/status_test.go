package images

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// populated has a current and a superseded core image, a superseded standard image
// that a container uses, a user's image whose tag moved, and the stage of a build.
func populated(t *testing.T) (e *memoryEngine, old, current, busy, mine Ref) {
	t.Helper()
	e = ownEngine(nil)
	trust := New(Options{})
	old = ensure(t, trust, e, Core)
	e.images[old.ID].Labels[LabelContent] = "ofanearlierbrig"
	e.images[old.ID].Tags = []string{"brig-runner:core-ofanearlierb"}
	current = ensure(t, trust, e, Core)
	busy = ensure(t, trust, e, Standard)
	e.images[busy.ID].Labels[LabelRunner] = "another"
	e.uses[busy.ID] = 1
	mine = ensureChoice(t, trust, e, Choice{Reference: ownName})
	e.bases[ownName] = Details{ID: "sha256:moved"}
	e.images["sha256:stage"] = &Found{ID: "sha256:stage", Labels: map[string]string{LabelKind: "build"}}
	e.images["sha256:theirs"] = &Found{ID: "sha256:theirs", Tags: []string{"team/on-top-of-brig:1"}, Labels: e.images[old.ID].Labels}
	e.images["sha256:other"] = &Found{ID: "sha256:other", Tags: []string{"debian:12"}}
	return e, old, current, busy, mine
}

func TestStatus(t *testing.T) {
	e, old, current, busy, mine := populated(t)
	states, err := New(Options{}).Status(t.Context(), e, Choice{Reference: "gone:1"})
	if err != nil || len(states) != 5 {
		t.Fatalf("%+v, %v", states, err)
	}
	core, standard, full, gone, own := states[0], states[1], states[2], states[3], states[4]
	if core.Condition != Ready || core.Current.ID != current.ID || core.Remedy != "" ||
		len(core.Others) != 1 || core.Others[0].ID != old.ID || core.Others[0].Why != "the recipe or the pinned libraries changed" {
		t.Errorf("core: %+v", core)
	}
	if standard.Condition != Stale || standard.Current != nil || standard.Remedy != "brig image build --tier standard" ||
		standard.Others[0].ID != busy.ID || standard.Reason != "made by another version of brig" {
		t.Errorf("standard: %+v", standard)
	}
	if full.Condition != Missing || full.Remedy != "brig image build --tier full" {
		t.Errorf("full: %+v", full)
	}
	if gone.Condition != Unusable || gone.Remedy != "docker pull gone:1" || gone.Reason == "" {
		t.Errorf("gone: %+v", gone)
	}
	if own.Condition != Stale || own.Reason != "the tag "+ownName+" moved" || own.Others[0].ID != mine.ID || own.Remedy != "brig image build --image "+ownName {
		t.Errorf("own: %+v", own)
	}
	e.bases[DefaultBase] = Details{ID: "sha256:newer"}
	if s, err := New(Options{}).Look(t.Context(), e, Choice{Tier: Core}); err != nil || s.Condition != Stale || s.Reason != "the base image changed" {
		t.Errorf("%+v, %v", s, err)
	}
	delete(e.bases, DefaultBase)
	if s, err := New(Options{}).Look(t.Context(), e, Choice{Tier: Full}); err != nil || s.Condition != Missing || s.Remedy != "docker pull debian:trixie-slim" {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestSelectAndRemove(t *testing.T) {
	e, old, current, busy, mine := populated(t)
	trust := New(Options{})
	ids := func(s Selection) []string {
		t.Helper()
		list, err := trust.Select(t.Context(), e, s)
		if err != nil {
			t.Fatalf("%+v: %v", s, err)
		}
		var out []string
		for _, c := range list {
			out = append(out, c.ID)
		}
		slices.Sort(out)
		return out
	}
	all := []string{old.ID, current.ID, busy.ID, mine.ID, "sha256:stage"}
	slices.Sort(all)
	for _, c := range []struct {
		selection Selection
		want      []string
	}{
		{Selection{}, nil},
		{Selection{Names: []string{"core"}}, []string{old.ID, current.ID}},
		{Selection{Names: []string{current.Tag}}, []string{current.ID}},
		{Selection{Names: []string{"image3"}}, []string{busy.ID}}, // the beginning of its ID
		{Selection{Names: []string{ownName}}, []string{mine.ID}},
		{Selection{Stale: true}, []string{old.ID, busy.ID, mine.ID, "sha256:stage"}},
		{Selection{All: true}, all},
	} {
		slices.Sort(c.want)
		if got := ids(c.selection); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.selection, got, c.want)
		}
	}
	for _, name := range []string{"debian:12", "team/on-top-of-brig:1", "theirs", "other", "sha256:other", "imag", "full"} {
		var unknown *UnknownImageError
		if list, err := trust.Select(t.Context(), e, Selection{Names: []string{name}}); !errors.As(err, &unknown) || unknown.Many != (name == "imag") {
			t.Errorf("%s: %+v, %v", name, list, err)
		}
	}

	some, err := trust.Select(t.Context(), e, Selection{Names: []string{"full", "core"}})
	var lacks *UnknownImageError
	if len(some) != 2 || !errors.As(err, &lacks) || lacks.Name != "full" {
		t.Errorf("one name of two: %+v, %v", some, err)
	}

	e.parents[old.ID] = "sha256:stage" // what stands on it has to go first
	list, err := trust.Select(t.Context(), e, Selection{All: true})
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(list)
	removed, err := trust.Remove(t.Context(), e, list)
	var used *UsedImageError
	if !errors.Is(err, ErrInUse) || !errors.As(err, &used) || used.ID != busy.ID || len(removed) != 4 {
		t.Errorf("removed %+v, %v", removed, err)
	}
	if len(e.images) != 3 || e.images[busy.ID] == nil || e.images["sha256:theirs"] == nil || e.images["sha256:other"] == nil {
		t.Errorf("left: %v", e.images)
	}
}

func TestRetentionRule(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	day := 24 * time.Hour
	ref := func(id string, used time.Duration) Ref {
		return Ref{ID: id, Choice: Choice{Tier: Core}, Created: now.Add(-100 * day), Used: now.Add(-used)}
	}
	current := ref("current", 0)
	other := ref("of another tier", 100*day)
	other.Choice.Tier = Full
	theirs := Ref{ID: "of another installation", Choice: current.Choice, Created: now.Add(-100 * day)}
	rule := Retention{Previous: 2, Age: 14 * day}
	for name, c := range map[string]struct {
		rule Retention
		all  []Ref
		want []string
	}{
		"off":             {Retention{}, []Ref{current, ref("old", 100*day)}, nil},
		"nothing else":    {rule, []Ref{current, other}, nil},
		"recent ones":     {rule, []Ref{current, other, ref("a", day), ref("b", 2*day)}, nil},
		"unused for long": {rule, []Ref{current, ref("a", 15*day)}, []string{"a"}},
		"two at most":     {rule, []Ref{current, ref("a", day), ref("c", 3*day), ref("b", 2*day)}, []string{"c"}},
		"never used here": {rule, []Ref{theirs, current, ref("a", day), ref("b", 2*day), theirs}, nil},
	} {
		var got []string
		for _, r := range c.rule.surplus(current, c.all, now) {
			got = append(got, r.ID)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestRetentionAfterABuild: what a container uses stays, and so does what another
// installation built on the same engine.
func TestRetentionAfterABuild(t *testing.T) {
	e := newMemoryEngine()
	for range 4 { // each has another base, so that none is the wanted one of the others
		e.bases[DefaultBase] = Details{ID: e.bases[DefaultBase].ID + "+"}
		ensure(t, New(Options{Cache: t.TempDir()}), e, Core)
	}
	theirs := len(e.images)
	trust := New(Options{Cache: t.TempDir(), Retention: DefaultRetention()})
	var refs []Ref
	var notes []string
	for range 6 {
		ref, err := trust.Rebuild(t.Context(), e, Choice{Tier: Core}, func(p Progress) {
			if p.Note {
				notes = append(notes, p.Text)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(refs) == 0 {
			e.uses[ref.ID] = 1
		}
		refs = append(refs, ref)
	}
	left := 0
	for _, r := range refs {
		if e.images[r.ID] != nil {
			left++
		}
	}
	if left != 4 || e.images[refs[0].ID] == nil || e.images[refs[5].ID] == nil || len(notes) != 2 {
		t.Errorf("%d of 6 are left, %q", left, notes)
	}
	if theirs != 4 || len(e.images) != theirs+left {
		t.Errorf("of another installation's %d images %d are left", theirs, len(e.images)-left)
	}
}
