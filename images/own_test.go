package images

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

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
		"image-python-fake":       {Step: "COPY --from=baked /opt/x", Message: "stat opt/brig-1/baked-" + stageOf(ownEngine(nil).bases[ownName]) + ": file does not exist"},
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

// TestOwnImageHangs: a build on a user's image that says nothing ends, and blocks no
// other image meanwhile.
func TestOwnImageHangs(t *testing.T) {
	e, cache := ownEngine(nil), t.TempDir()
	begun := make(chan struct{})
	hanging := hangingEngine{memoryEngine: e, begun: begun}
	ended := make(chan error, 1)
	go func() {
		_, err := New(Options{Cache: cache, SilenceLimit: time.Second}).Ensure(t.Context(), hanging, Choice{Reference: ownName}, nil)
		ended <- err
	}()
	<-begun
	if _, err := New(Options{Cache: cache}).Ensure(t.Context(), e, Choice{Tier: Core}, nil); err != nil {
		t.Error(err)
	}
	err := <-ended
	var unusable *OwnImageError
	if !errors.As(err, &unusable) || unusable.Code != "image-python-hangs" || unusable.Next == "" {
		t.Errorf("%v", err)
	}
	_, err = New(Options{Cache: cache, BuildLimit: time.Second}).Ensure(t.Context(), hangingEngine{memoryEngine: e, begun: make(chan struct{})}, Choice{Tier: Standard}, nil)
	if err == nil || !strings.Contains(err.Error(), "the build took longer than 1s") {
		t.Errorf("%v", err)
	}
}

// hangingEngine begins a build and never ends it by itself.
type hangingEngine struct {
	*memoryEngine
	begun chan struct{}
}

func (e hangingEngine) Build(ctx context.Context, _ Request, _ func(Progress)) error {
	close(e.begun)
	<-ctx.Done()
	return context.Cause(ctx)
}

// TestOwnImageStaysUnusable: what a build found out is known until the image changes.
func TestOwnImageStaysUnusable(t *testing.T) {
	e, trust, c := ownEngine(nil), New(Options{Cache: t.TempDir()}), Choice{Reference: ownName}
	e.fail = &StepError{Step: "RUN [...]", Message: "code 1", Tail: []string{"brig-bake: python-old: Python 3.7.3"}}
	e.images["sha256:left"] = &Found{ID: "sha256:left", Labels: map[string]string{LabelKind: "build", labelStage: stageOf(e.bases[ownName])}}
	e.images["sha256:others"] = &Found{ID: "sha256:others", Labels: map[string]string{LabelKind: "build", labelStage: "another"}}
	if _, err := trust.Ensure(t.Context(), e, c, nil); err == nil {
		t.Fatal("the build did not fail")
	}
	if e.images["sha256:left"] != nil || e.images["sha256:others"] == nil {
		t.Errorf("left: %v", e.images)
	}
	s, err := trust.Look(t.Context(), e, c)
	if err != nil || s.Condition != Unusable || !strings.Contains(s.Reason, "Python 3.7.3") || s.Err == nil {
		t.Errorf("%+v, %v", s, err)
	}
	if again := ensureChoice(t, trust, e, c); !again.Built { // asked for by name it is tried again
		t.Errorf("%+v", again)
	}
	if s, err = trust.Look(t.Context(), e, c); err != nil || s.Condition != Ready {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestOneImageManyNames: how a reference is spelled makes no other image.
func TestOneImageManyNames(t *testing.T) {
	e, trust := ownEngine(nil), New(Options{Cache: t.TempDir()})
	e.bases["docker.io/"+ownName] = e.bases[ownName]
	first := ensureChoice(t, trust, e, Choice{Reference: ownName})
	second := ensureChoice(t, trust, e, Choice{Reference: "docker.io/" + ownName})
	if second.ID != first.ID || second.Built || second.Choice.Reference != "docker.io/"+ownName {
		t.Errorf("%+v and %+v", first, second)
	}
	list, err := trust.Select(t.Context(), e, Selection{All: true})
	if err != nil || len(list) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestTwoInstallationsAtOnce: the second to end takes the first one's image.
func TestTwoInstallationsAtOnce(t *testing.T) {
	e, c := ownEngine(nil), Choice{Reference: ownName}
	var theirs Ref
	e.building = func() {
		e.building = nil
		theirs = ensureChoice(t, New(Options{Cache: t.TempDir()}), &memoryEngine{
			images: e.images, bases: e.bases, pins: map[string]string{}, uses: e.uses, parents: e.parents, builds: 100, now: e.now,
		}, c)
	}
	mine, err := New(Options{Cache: t.TempDir()}).Ensure(t.Context(), e, c, nil)
	if err != nil || mine.ID != theirs.ID || len(e.images) != 1 {
		t.Errorf("%+v, %+v, %v; left %v", mine, theirs, err, e.images)
	}
}
