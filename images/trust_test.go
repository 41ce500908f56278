package images

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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
		"a newer base":    func() { e.bases[DefaultBase] = Details{ID: e.bases[DefaultBase].ID + "+"} },
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

// TestNeitherTagNorLabelsAlone: a tag says nothing about what is in an image.
func TestNeitherTagNorLabelsAlone(t *testing.T) {
	e, trust := newMemoryEngine(), New(Options{})
	first := ensure(t, trust, e, Core)
	e.images["sha256:evil"] = &Found{ID: "sha256:evil", Tags: e.images[first.ID].Tags, Labels: map[string]string{LabelKind: "runner", LabelTier: "core"}}
	if again := ensure(t, trust, e, Core); again.ID != first.ID || again.Built {
		t.Errorf("%+v", again)
	}
	// And labels alone do not either: an image from a registry can have any, but not brig's name.
	e.images[first.ID].Tags = []string{"registry.example/" + first.Tag}
	if again := ensure(t, trust, e, Core); again.ID == first.ID || !again.Built {
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
	_, err := trust.Ensure(t.Context(), e, Choice{Tier: Standard}, nil)
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
			ref, err := trust.Ensure(context.Background(), e, Choice{Tier: Core}, nil)
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
	if _, err := trust.Ensure(t.Context(), e, Choice{Tier: Core}, nil); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("%v", err)
	}
	if ref := ensure(t, trust, e, Core); !ref.Built { // and it can be tried again
		t.Errorf("%+v", ref)
	}
}

func TestBuildContext(t *testing.T) {
	e, trust := newMemoryEngine(), New(Options{})
	ensure(t, trust, e, Full)
	one := e.last.Context
	if _, err := New(Options{}).Rebuild(t.Context(), e, Choice{Tier: Full}, nil); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(one, e.last.Context) {
		t.Error("two contexts of one brig differ")
	}
	for _, name := range []string{"Dockerfile.runner", "apt.sh", "libraries.sh", "standard.txt", "full.txt", "mirror-ca.pem", "runner/start.py"} {
		if _, ok := e.context[name]; !ok {
			t.Errorf("%s is missing", name)
		}
	}
	for _, tier := range []string{"standard", "full"} {
		have := pinned(t, e.context[tier+".txt"])
		asked, err := os.ReadFile("requirements/" + tier + ".in")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range strings.Fields(string(asked)) {
			if !slices.Contains(have, name) {
				t.Errorf("%s.txt has no pin of %s", tier, name)
			}
		}
		for _, name := range pinned(t, e.context["standard.txt"]) {
			if tier == "full" && slices.Contains(have, name) {
				t.Errorf("%s is pinned twice", name)
			}
		}
	}
}

// pinned are the libraries of a list; each has at least one hash and at most one for each platform.
func pinned(t *testing.T, list string) []string {
	t.Helper()
	var names []string
	for _, entry := range regexp.MustCompile(`(?m)^[a-z0-9]`).Split(regexp.MustCompile(`(?m)^#.*$`).ReplaceAllString(list, ""), -1)[1:] {
		if n := strings.Count(entry, "--hash=sha256:"); n < 1 || n > 2 || !strings.Contains(entry, "==") {
			t.Errorf("%d hashes in %q", n, entry)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^([a-z0-9-]+)==`).FindAllStringSubmatch(list, -1) {
		names = append(names, m[1])
	}
	return names
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
	if _, err := New(Options{Env: env}).Rebuild(t.Context(), e, Choice{Tier: Core}, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
