package images

import (
	"errors"
	"strings"
	"testing"

	"brig/orchestrator/runner"
)

const ownName = "registry.example/team/analysis:2"

// ownEngine is an engine with a user's image.
func ownEngine(change func(*Details)) *memoryEngine {
	e := newMemoryEngine()
	d := Details{
		ID: "sha256:0123456789abcdef0123", OS: "linux", Architecture: "amd64", Digests: []string{"registry.example/team/analysis@sha256:d1"},
		Env: []string{"PATH=/opt/conda/bin:/bin", "AWS_SECRET=hunter2", "LD_PRELOAD=/evil.so", `ODD"$NAME=x`, "EMPTY="},
	}
	if change != nil {
		change(&d)
	}
	e.bases[ownName] = d
	return e
}

func TestOwnImage(t *testing.T) {
	e, trust, c := ownEngine(nil), New(Options{}), Choice{Reference: ownName}
	first := ensureChoice(t, trust, e, c)
	again := ensureChoice(t, New(Options{}), e, c) // another brig
	if !first.Built || again.Built || first.ID != again.ID || e.builds != 1 {
		t.Fatalf("built %d times: %+v, %+v", e.builds, first, again)
	}
	if first.Choice != c || first.Runner != runner.Hash() || first.Base != "sha256:0123456789abcdef0123" || !strings.HasPrefix(first.Tag, "brig-runner:own-") {
		t.Errorf("%+v", first)
	}
	if got := again.Identity(); !strings.HasPrefix(got, ownName+" (registry.example/team/analysis@sha256:d1) as brig-runner:own-") || !strings.HasSuffix(got, "(sha256:image1)") {
		t.Errorf("identity %q", got)
	}
	if !e.last.Offline {
		t.Error("the build has a network")
	}
	recipe := e.context[dockerfileName]
	for _, want := range []string{
		"HEALTHCHECK NONE\n", `ENV "AWS_SECRET"=` + "\n", `ENV "LD_PRELOAD"=` + "\n", `ENV "ODD\"\$NAME"=` + "\n",
		`RUN ["python3","-I","/opt/brig-`, `ENTRYPOINT ["python3","-I","-u","/opt/brig-`, "USER 65532:65532\n", "CMD []\n",
	} {
		if !strings.Contains(recipe, want) {
			t.Errorf("the recipe lacks %q", want)
		}
	}
	if strings.Contains(recipe, "PATH") || strings.Contains(recipe, "hunter2") || strings.Contains(recipe, "EMPTY") {
		t.Errorf("the recipe:\n%s", recipe)
	}
	if strings.Index(recipe, "LD_PRELOAD") > strings.Index(recipe, "RUN ") {
		t.Error("the image's LD_PRELOAD acts in the build")
	}

	e.bases[ownName] = Details{ID: "sha256:moved"}
	moved := ensureChoice(t, trust, e, c)
	if !moved.Built || moved.ID == first.ID || !strings.HasPrefix(moved.Identity(), ownName+" (sha256:moved) as") {
		t.Errorf("after the tag moved: %+v", moved)
	}
	if e.images[moved.ID].Labels[LabelReference] != ownName {
		t.Errorf("labels %v", e.images[moved.ID].Labels)
	}
}

// TestOwnImageIsNoTier: an image that claims to be a tier's, or is called like one, is not taken for it.
func TestOwnImageIsNoTier(t *testing.T) {
	e, trust := newMemoryEngine(), New(Options{})
	tier := ensure(t, trust, e, Core)
	e.bases["core"] = Details{ID: "sha256:core"}
	mine := ensureChoice(t, trust, e, Choice{Reference: "core"})
	if mine.ID == tier.ID || ensure(t, trust, e, Core).ID != tier.ID {
		t.Errorf("%+v and %+v", mine, tier)
	}
}

func TestOwnImageRefused(t *testing.T) {
	for code, change := range map[string]func(*Details){
		"image-architecture": func(d *Details) { d.Architecture = "s390x" },
		"image-volume":       func(d *Details) { d.Volumes = []string{"/tmp/", "/data"} },
		"image-onbuild":      func(d *Details) { d.OnBuild = []string{"RUN something"} },
		"image-python-label": func(d *Details) { d.Labels = map[string]string{labelPython: `/bin/sh", "-c`} },
	} {
		e := ownEngine(change)
		_, err := New(Options{}).Ensure(t.Context(), e, Choice{Reference: ownName}, nil)
		var unusable *OwnImageError
		if !errors.As(err, &unusable) || unusable.Code != code || unusable.Next == "" || e.builds != 0 {
			t.Errorf("%s: %v, %d builds", code, err, e.builds)
		}
	}
	windows := ownEngine(func(d *Details) { d.OS = "windows" })
	if _, err := New(Options{}).Ensure(t.Context(), windows, Choice{Reference: ownName}, nil); err == nil || !strings.Contains(err.Error(), "is made for windows") {
		t.Errorf("%v", err)
	}
	_, err := New(Options{}).Ensure(t.Context(), newMemoryEngine(), Choice{Reference: ownName}, nil)
	if err == nil || !strings.HasSuffix(err.Error(), "next: docker pull "+ownName) || !errors.Is(err, ErrNoImage) {
		t.Errorf("%v", err)
	}
	// A mount point that brig covers anyway is no reason, and the label may name an interpreter.
	fine := ownEngine(func(d *Details) {
		d.Volumes, d.Labels = []string{"/tmp", "/workspace/"}, map[string]string{labelPython: "/opt/conda/bin/python3.12"}
	})
	ensureChoice(t, New(Options{}), fine, Choice{Reference: ownName})
	if !strings.Contains(fine.context[dockerfileName], `ENTRYPOINT ["/opt/conda/bin/python3.12",`) {
		t.Errorf("the recipe:\n%s", fine.context[dockerfileName])
	}
}

func TestOwnImageWithoutPython(t *testing.T) {
	for code, failed := range map[string]*StepError{
		"image-python-old":        {Step: "RUN [...]", Message: "code 1", Tail: []string{"brig-bake: python-old: Python 3.7.3"}},
		"image-python-incomplete": {Step: "RUN [...]", Message: "code 1", Tail: []string{"---> Running", "brig-bake: python-incomplete: No module named 'json'"}},
		"image-paths":             {Step: "RUN [...]", Message: "code 1", Tail: []string{"brig-bake: paths: /workspace is a symbolic link"}},
		"image-python-missing":    {Step: "RUN [...]", Message: `exec: "python3": executable file not found in $PATH`},
		"image-architecture":      {Step: "RUN [...]", Message: `exec: "python3": exec format error`},
	} {
		e := ownEngine(nil)
		e.fail = failed
		_, err := New(Options{}).Ensure(t.Context(), e, Choice{Reference: ownName}, nil)
		var unusable *OwnImageError
		if !errors.As(err, &unusable) || unusable.Code != code || unusable.Next == "" || !errors.Is(err, failed) {
			t.Errorf("%s: %v", code, err)
		}
	}
	e := ownEngine(nil)
	e.fail = &StepError{Step: "RUN [...]", Message: "no space left on device"}
	var unusable *OwnImageError
	if _, err := New(Options{}).Ensure(t.Context(), e, Choice{Reference: ownName}, nil); err == nil || errors.As(err, &unusable) {
		t.Errorf("a full disk is the image's fault: %v", err)
	}
}
