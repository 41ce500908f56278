package docker

import (
	"os"
	"testing"

	"brig/images"
	"brig/orchestrator/sandbox/sandboxtest"
)

// engine29 starts an engine of the 29.x line from the directory that .ci/engine29
// built it into.
func engine29(t *testing.T, args ...string) *ownEngine {
	t.Helper()
	dir := sandboxtest.OptIn(t, "BRIG_TEST_ENGINE29", ".ci/engine29 builds an engine")
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return startEngine(t, args...)
}

// TestEngine29Conformance is the whole suite. The rows of failures are run on it by
// putting the directory first on PATH, as .ci/engine29 does.
func TestEngine29Conformance(t *testing.T) {
	own := engine29(t)
	b := newBackend(t, func(o *Options) { o.Endpoint = own.endpoint })
	facts, err := b.Probe(limited(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s, api %s", facts.Version, facts.Details["api"])
	i := session(t, b, coreBase(), t.TempDir())
	for _, l := range i.Posture().Layers {
		t.Logf("%s %s %s (%s)", l.ID, l.State, l.Code, l.Evidence)
	}
	if weak := i.Posture().Weakened(); len(weak) != 0 {
		t.Errorf("weakened: %+v", weak)
	}
	if err := i.Close(limited(t)); err != nil {
		t.Error(err)
	}
	sandboxtest.Run(t, conformance(t, func(o *Options) { o.Endpoint = own.endpoint }))
}

// TestEngine29Builds builds with both builders, in the store that such an engine has
// by default.
func TestEngine29Builds(t *testing.T) {
	own := engine29(t, "--feature", "containerd-snapshotter=true")
	b := newBackend(t, func(o *Options) { o.Endpoint = own.endpoint })
	for _, version := range builders() {
		r := recipeOf(t, "FROM "+images.DefaultBase+"\nLABEL dev.brig.test=engine29\n")
		said, _, err := makeImage(t, b, r, version)
		if err != nil {
			t.Errorf("builder %s: %v; it said %v", version, err, said)
			continue
		}
		found, err := b.Inspect(limited(t), r.Tag)
		if err != nil {
			t.Errorf("builder %s: %v", version, err)
		}
		t.Logf("builder %s made %.19s", version, found.ID)
	}
}
