package sandboxtest

import (
	"context"
	"reflect"
	"slices"
	"testing"

	"brig/orchestrator/sandbox"
)

func backendCases() []testCase {
	return []testCase{
		{name: "Kind", run: caseKind},
		{name: "Probe", run: caseProbe},
		{name: "ProbeCancelled", run: caseProbeCancelled},
		{name: "Capabilities", run: caseCapabilities},
		{name: "PostureComplete", run: casePosture},
		{name: "PostureSealed", run: casePostureSealed},
		{name: "PostureDigestStable", run: caseDigest},
		{name: "InstanceID", run: caseInstanceID},
		{name: "SweepOfAnotherOwner", run: caseSweep},
	}
}

func caseKind(t *testing.T, s *suite) {
	k := s.backend.Kind()
	if k == "" || k != s.backend.Kind() {
		t.Errorf("kind is %q, then %q", k, s.backend.Kind())
	}
}

func caseProbe(t *testing.T, s *suite) {
	facts, err := s.backend.Probe(limited(t))
	if err != nil {
		t.Fatalf("probe: %v", err)
	}
	if facts.Backend != s.backend.Kind() {
		t.Errorf("facts are about %q, the backend is %q", facts.Backend, s.backend.Kind())
	}
	if facts.Endpoint == "" || facts.Source == "" || facts.Version == "" {
		t.Errorf("facts do not say what was taken, why, or its version: %+v", facts)
	}
}

func caseProbeCancelled(t *testing.T, s *suite) {
	ctx, cancel := context.WithCancel(limited(t))
	cancel()
	// Either answer is right; it must come.
	if _, err := s.backend.Probe(ctx); err == nil {
		t.Log("probe answered although its context had ended")
	}
}

func caseCapabilities(t *testing.T, s *suite) {
	layers, err := s.backend.Capabilities(limited(t), s.f.Base)
	if err != nil {
		t.Fatalf("capabilities: %v", err)
	}
	if err := sandbox.Complete(layers); err != nil {
		t.Error(err)
	}
}

func casePosture(t *testing.T, s *suite) {
	p := s.any(t).Posture()
	if err := sandbox.Complete(p.Layers); err != nil {
		t.Error(err)
	}
	if p.Backend != s.backend.Kind() || p.Identity == "" {
		t.Errorf("posture of backend %q with identity %q, want %q and any identity", p.Backend, p.Identity, s.backend.Kind())
	}
	for _, l := range p.Layers {
		if l.State == sandbox.Enforced && l.Mechanism == "" {
			t.Errorf("layer %s is enforced by nothing", l.ID)
		}
	}
	for _, id := range p.Promised {
		if !slices.Contains(sandbox.Layers(), id) {
			t.Errorf("an unknown layer %q is promised", id)
		}
	}
}

// casePostureSealed scribbles over what it was given and runs code: neither
// may show in the next answer.
func casePostureSealed(t *testing.T, s *suite) {
	b := s.any(t)
	before, digest := b.Posture(), b.Posture().Digest()
	scribbled := b.Posture()
	for i := range scribbled.Layers {
		scribbled.Layers[i] = sandbox.Layer{}
	}
	b.ok(t, Program{Print("x")})
	after := b.Posture()
	if after.Digest() != digest {
		t.Errorf("digest was %s and became %s", digest, after.Digest())
	}
	if after.Layers[0].ID == "" {
		t.Error("a caller can change the sealed posture")
	}
	if len(before.Layers) != len(after.Layers) || !reflect.DeepEqual(after, b.Posture()) {
		t.Error("the posture is not the same at each call")
	}
}

func caseDigest(t *testing.T, s *suite) {
	if one, two := s.any(t).Posture(), s.own(t).Posture(); one.Digest() != two.Digest() {
		t.Errorf("two instances of one base have the digests %s and %s:\n%+v\n%+v", one.Digest(), two.Digest(), one, two)
	}
}

func caseInstanceID(t *testing.T, s *suite) {
	id := s.newID()
	b, err := s.prepare(limited(t), s.f.Base, s.workspace(t), id)
	if err != nil {
		t.Fatal(err)
	}
	defer b.mustClose(t)
	if b.ID() != id {
		t.Errorf("the instance calls itself %q, the claim said %q", b.ID(), id)
	}
}

func caseSweep(t *testing.T, s *suite) {
	b := s.any(t)
	none := func(sandbox.InstanceID) bool { return false }
	removed, err := s.backend.Sweep(limited(t), "suite-nobody", none)
	if err != nil || removed != 0 {
		t.Fatalf("sweep for an owner without instances removed %d, %v", removed, err)
	}
	b.usable(t)
}
