package docker

import (
	"os"
	"os/exec"
	"testing"

	"brig/images"
	"brig/orchestrator/docker/enginetest"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/sandbox/sandboxtest"
)

// fakeEngine is an engine that fails on demand. Its containers are processes of
// this machine, so a root and an interpreter are needed.
func fakeEngine(t *testing.T, o enginetest.Options) *enginetest.Engine {
	t.Helper()
	if os.Getuid() != 0 {
		sandboxtest.Skip(t, "root, to build the file system of a container", "an ordinary user")
	}
	if _, err := exec.LookPath("python3"); err != nil {
		sandboxtest.Skip(t, "python3", err.Error())
	}
	return enginetest.New(t, o)
}

// fakeBackend is a backend on it, with the image built.
func fakeBackend(t *testing.T, e *enginetest.Engine, change ...func(*Options)) *Backend {
	t.Helper()
	b := newBackend(t, append([]func(*Options){func(o *Options) {
		o.Env, o.Endpoint, o.Images = env(), e.Endpoint(), images.New(images.Options{})
	}}, change...)...)
	if _, err := b.ensureImage(limited(t), images.Core); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestConformanceOnTheFake: the engine that the table of failures stands on passes
// the suite itself, in each of its flavors, so that what fails there is brig's.
func TestConformanceOnTheFake(t *testing.T) {
	for name, flavor := range map[string]enginetest.Flavor{
		"Docker20": enginetest.Docker20(), "Docker29": enginetest.Docker29(), "Podman4": enginetest.Podman4(),
	} {
		t.Run(name, func(t *testing.T) {
			if name == "Docker29" { // apart from a few words it is Docker20
				sandboxtest.OptIn(t, "BRIG_TEST_LONG", "the long run sets it")
			}
			e := fakeEngine(t, enginetest.Options{Flavor: flavor})
			fakeBackend(t, e) // builds the image before anything is measured
			suite := conformance(t, func(o *Options) {
				o.Env, o.Endpoint, o.Images = env(), e.Endpoint(), images.New(images.Options{})
			})
			if flavor.Podman {
				suite = withoutKeeping(suite)
			}
			sandboxtest.Run(t, suite)
		})
	}
}

// withoutKeeping is the suite for an engine on which nothing can be adopted.
func withoutKeeping(f sandboxtest.Factory) sandboxtest.Factory {
	made, count := f.New, f.Count
	f.New = func(t testing.TB) sandbox.Backend { return unkept{made(t)} }
	f.Count = func(t testing.TB, b sandbox.Backend) int { return count(t, b.(unkept).Backend) }
	f.Later = nil
	return f
}

// unkept hides that a backend is a sandbox.Adopter.
type unkept struct{ sandbox.Backend }

// fakeContainer is an instance's container as its engine sees it.
func fakeContainer(t testing.TB, e *enginetest.Engine, id string) enginetest.Container {
	t.Helper()
	for _, c := range e.Containers() {
		if c.ID() == id {
			return c
		}
	}
	t.Fatal("the engine does not have that container")
	return enginetest.Container{}
}
