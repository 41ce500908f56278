package docker

import (
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"brig/images"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/sandbox/sandboxtest"
)

// podmanEndpoint is where a Podman service answers that may be used for tests; it
// is given the images that the engine of this machine has. .ci/podman starts one.
func podmanEndpoint(t *testing.T) string {
	t.Helper()
	endpoint := sandboxtest.OptIn(t, "BRIG_TEST_PODMAN", ".ci/podman starts a service")
	source := engineBackend(t, images.Core)
	there := newBackend(t, func(o *Options) { o.Endpoint = endpoint })
	e, err := there.current(limited(t))
	if err != nil {
		t.Fatal(err)
	}
	if !e.podman {
		t.Fatalf("at %s answers %s, which is no Podman", endpoint, e.facts().Version)
	}
	copyImages(t, source, e.cli)
	return endpoint
}

// TestPodmanConformance: Podman's compatible socket passes what Docker passes, but
// for sessions that outlive brig, which it cannot have.
func TestPodmanConformance(t *testing.T) {
	endpoint := podmanEndpoint(t)
	sandboxtest.Run(t, withoutKeeping(conformance(t, func(o *Options) { o.Endpoint = endpoint })))
}

// TestPodmanEndsWithBrig: what its echo does not tell holds all the same.
func TestPodmanEndsWithBrig(t *testing.T) {
	endpoint := podmanEndpoint(t)
	b := newBackend(t, func(o *Options) { o.Endpoint = endpoint })
	for _, stage := range []string{"prepared", "idle", "running"} {
		h := startHolder(t, b, stage, "BRIG_DOCKER_TEST_ENDPOINT="+endpoint)
		h.kill()
		t.Logf("%s: gone after %s", stage, awaitNone(t, b, 10*time.Second, func(container.Summary) bool { return true }))
	}
}

// TestPodmanPosture: what it only repeats is not taken for applied, and what it
// names differently is not taken for missing.
func TestPodmanPosture(t *testing.T) {
	b := newBackend(t, func(o *Options) { o.Endpoint = podmanEndpoint(t) })
	i := session(t, b, coreBase(), t.TempDir())
	ok(t, i, "print(1)")
	p := i.Posture()
	for _, l := range p.Layers {
		t.Logf("%s %s %s %s (%s)", l.ID, l.State, l.Code, l.Reason, l.Evidence)
	}
	t.Logf("notes: %s", strings.Join(p.Notes, "; "))
	// Podman does not tell whether the input ends with the stream, so these two are
	// less than promised and said to be.
	for _, l := range p.Weakened() {
		if l.ID != sandbox.InheritedFDs && l.ID != sandbox.TreeKill || l.Code != "stdin-stays-open" {
			t.Errorf("weakened: %+v", l)
		}
	}
	if facts, err := b.Probe(limited(t)); err != nil || !strings.HasPrefix(facts.Version, "Podman ") || facts.Backend != sandbox.Docker {
		t.Errorf("facts %+v, %v", facts, err)
	}
}

// TestPodmanHasNoLease: what is asked to outlive brig runs all the same, and cannot
// be taken up again.
func TestPodmanHasNoLease(t *testing.T) {
	b := newBackend(t, func(o *Options) { o.Endpoint = podmanEndpoint(t) })
	base := coreBase()
	base.Lease = time.Minute
	i := session(t, b, base, t.TempDir()) // which panics where it is a kept one
	ok(t, i, "print(1)")
}
