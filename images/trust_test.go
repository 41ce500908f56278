package images

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"brig/orchestrator/runner"
)

func TestEnsureBuildsOnce(t *testing.T) {
	e, trust := newMemoryEngine(), New(Options{})
	first := ensure(t, trust, e, Core)
	again := ensure(t, New(Options{}), e, Core) // another brig
	if !first.Built || again.Built || first.ID != again.ID || e.builds != 1 {
		t.Errorf("built %d times: %+v, %+v", e.builds, first, again)
	}
	if !strings.HasPrefix(first.Tag, "brig-runner:core-") || first.Runner != runner.Hash() || first.Base != "sha256:base1" {
		t.Errorf("%+v", first)
	}
	other := ensure(t, trust, e, Standard)
	if other.ID == first.ID || other.Content == first.Content {
		t.Error("two tiers are one image")
	}
}

func TestEnsureRebuildsWhatIsStale(t *testing.T) {
	e, trust := newMemoryEngine(), New(Options{})
	first := ensure(t, trust, e, Core)
	for name, change := range map[string]func(){
		"another runner":  func() { e.images[first.ID].Labels[LabelRunner] = "another" },
		"another content": func() { e.images[first.ID].Labels[LabelContent] = "another" },
		"another tier":    func() { e.images[first.ID].Labels[LabelTier] = "standard" },
		"a newer base":    func() { e.bases[DefaultBase] += "+" },
		"it was removed":  func() { delete(e.images, first.ID) },
	} {
		change()
		second := ensure(t, trust, e, Core)
		if !second.Built || second.ID == first.ID {
			t.Errorf("%s: %+v", name, second)
		}
		first = second
	}
}

// TestTagsDoNotCount: a tag says nothing about what is in an image.
func TestTagsDoNotCount(t *testing.T) {
	e, trust := newMemoryEngine(), New(Options{})
	first := ensure(t, trust, e, Core)
	e.images["sha256:evil"] = &Found{ID: "sha256:evil", Tags: e.images[first.ID].Tags, Labels: map[string]string{LabelKind: "runner", LabelTier: "core"}}
	e.images[first.ID].Tags = nil
	if again := ensure(t, trust, e, Core); again.ID != first.ID || again.Built {
		t.Errorf("%+v", again)
	}
}

func TestMissingBase(t *testing.T) {
	e, trust := newMemoryEngine(), New(Options{})
	first := ensure(t, trust, e, Core)
	delete(e.bases, DefaultBase)
	if again := ensure(t, trust, e, Core); again.ID != first.ID {
		t.Error("an image that is there needs its base no more")
	}
	_, err := trust.Ensure(t.Context(), e, Standard, nil)
	var missing *MissingBaseError
	if !errors.As(err, &missing) || !strings.HasSuffix(err.Error(), "docker pull debian:trixie-slim") {
		t.Errorf("%v", err)
	}
	if e.builds != 1 {
		t.Errorf("%d builds", e.builds)
	}
}

func TestEnsureFromManyAtOnce(t *testing.T) {
	e, shared := newMemoryEngine(), New(Options{})
	refs := make([]Ref, 16)
	var wg sync.WaitGroup
	for n := range refs {
		wg.Go(func() {
			trust := shared
			if n%2 == 0 { // another brig, which shares nothing but the engine
				trust = New(Options{})
			}
			ref, err := trust.Ensure(context.Background(), e, Core, nil)
			if err != nil {
				t.Error(err)
			}
			refs[n] = ref
		})
	}
	wg.Wait()
	last := ensure(t, shared, e, Core)
	for _, ref := range refs {
		if ref.Content != last.Content || ref.ID == "" {
			t.Errorf("%+v", ref)
		}
	}
	if last.Built || last.Tag == "" {
		t.Errorf("in the end: %+v", last)
	}
}

func TestBuildFailure(t *testing.T) {
	e, trust := newMemoryEngine(), New(Options{})
	e.fail = errors.New("no space left")
	if _, err := trust.Ensure(t.Context(), e, Core, nil); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("%v", err)
	}
	if ref := ensure(t, trust, e, Core); !ref.Built { // and it can be tried again
		t.Errorf("%+v", ref)
	}
}

func TestStatusAndPrune(t *testing.T) {
	e, trust := newMemoryEngine(), New(Options{})
	old := ensure(t, trust, e, Core)
	e.images[old.ID].Labels[LabelContent] = "of an earlier brig"
	current := ensure(t, trust, e, Core)
	busy := ensure(t, trust, e, Standard)
	e.images[busy.ID].Labels[LabelContent] = "also earlier"
	e.inUse[busy.ID] = true
	e.images["sha256:stage"] = &Found{ID: "sha256:stage", Labels: map[string]string{LabelKind: "build"}}

	states, err := trust.Status(t.Context(), e)
	if err != nil || len(states) != 2 {
		t.Fatalf("%+v, %v", states, err)
	}
	if s := states[0]; s.Tier != Core || s.Condition != Ready || s.Current.ID != current.ID || len(s.Others) != 1 || s.Others[0].ID != old.ID || s.Remedy != "" {
		t.Errorf("%+v", s)
	}
	if s := states[1]; s.Tier != Standard || s.Condition != Stale || s.Current != nil || s.Remedy != "brig image build --tier standard" {
		t.Errorf("%+v", s)
	}
	removed, err := trust.Prune(t.Context(), e)
	if err == nil || len(removed) != 2 {
		t.Errorf("removed %v, %v", removed, err)
	}
	if e.images[current.ID] == nil || e.images[busy.ID] == nil || e.images[old.ID] != nil || e.images["sha256:stage"] != nil {
		t.Errorf("left: %v", e.images)
	}
}

func TestBuildContext(t *testing.T) {
	one, err := buildContext(nil)
	if err != nil {
		t.Fatal(err)
	}
	two, err := buildContext(nil)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Error("two contexts of one brig differ")
	}
	files, err := readTar(one)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Dockerfile.runner", "apt.sh", "libraries.sh", "requirements.txt", "mirror-ca.pem", "runner/start.py"} {
		if _, ok := files[name]; !ok {
			t.Errorf("%s is missing", name)
		}
	}
	for _, line := range strings.Split(files["requirements.txt"], "\n") {
		if strings.Contains(line, "==") && !strings.HasSuffix(line, `\`) {
			t.Errorf("a library without a hash: %s", line)
		}
	}
}

func TestMirrorSettings(t *testing.T) {
	certificates := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(certificates, []byte("-----BEGIN CERTIFICATE-----"), 0o600); err != nil {
		t.Fatal(err)
	}
	set := map[string]string{
		"PIP_INDEX_URL": "mirror", "APT_MIRROR": "debian", "https_proxy": "proxy", "NO_PROXY": "none",
		"PIP_CERT": certificates, "PIP_FIND_LINKS": "/of/this/machine", "SECRET": "secret",
	}
	env := func(name string) (string, bool) { value, ok := set[name]; return value, ok }
	e := newMemoryEngine()
	plain := ensure(t, New(Options{}), newMemoryEngine(), Core)
	mirrored := ensure(t, New(Options{Env: env}), e, Core)
	if plain.Content != mirrored.Content {
		t.Error("where packages come from changes what is trusted")
	}
	for name, want := range map[string]string{"PIP_INDEX_URL": "mirror", "APT_MIRROR": "debian", "https_proxy": "proxy", "NO_PROXY": "none", "PIP_FIND_LINKS": "", "SECRET": ""} {
		if got := e.last.Args[name]; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if e.context["mirror-ca.pem"] != "-----BEGIN CERTIFICATE-----" {
		t.Errorf("certificates: %q", e.context["mirror-ca.pem"])
	}
	set["PIP_CERT"] = certificates + ".missing"
	if _, err := New(Options{Env: env}).Rebuild(t.Context(), e, Core, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func TestParseTier(t *testing.T) {
	for name, want := range map[string]Tier{"": Standard, "core": Core, "standard": Standard} {
		if got, err := ParseTier(name); err != nil || got != want {
			t.Errorf("%q: %s, %v", name, got, err)
		}
	}
	var unknown *UnknownTierError
	if _, err := ParseTier("full"); !errors.As(err, &unknown) || err.Error() != `unknown image tier "full"; there are core and standard` {
		t.Errorf("%v", err)
	}
}
