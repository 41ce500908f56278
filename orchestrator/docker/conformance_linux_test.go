package docker

import (
	"context"
	"os"
	"slices"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"brig/images"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/sandbox/sandboxtest"
)

func TestConformance(t *testing.T) {
	engineBackend(t, images.Core) // builds the image before anything is measured
	sandboxtest.Run(t, conformance(t, func(*Options) {}))
}

// conformance is the suite's view of an engine.
func conformance(t testing.TB, change func(*Options)) sandboxtest.Factory {
	t.Helper()
	owner := "suite-" + token()
	another := func(t testing.TB, owner string) sandbox.Backend {
		o := Options{Env: os.LookupEnv, Owner: owner, Process: token()}
		change(&o)
		b, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	return sandboxtest.Factory{
		Owner: owner,
		New: func(t testing.TB) sandbox.Backend {
			b := another(t, owner)
			if _, err := b.Probe(t.Context()); err != nil {
				t.Fatal(err)
			}
			return b
		},
		Base:   coreBase(),
		Python: true,
		Tree: func(t testing.TB, i sandbox.Instance) []sandboxtest.Process {
			x := boxOf(i)
			state, err := x.engine.cli.ContainerInspect(limited(t), x.id)
			if err != nil {
				t.Fatal(err)
			}
			return sandboxtest.ProcTree(state.State.Pid)
		},
		Alive: func(_ testing.TB, _ sandbox.Instance, p sandboxtest.Process) bool { return sandboxtest.ProcAlive(p) },
		Lose: func(t testing.TB, i sandbox.Instance) {
			x := boxOf(i)
			if err := x.engine.cli.ContainerKill(limited(t), x.id, "KILL"); err != nil {
				t.Fatal(err)
			}
		},
		LosePrepared: func(t testing.TB, p sandbox.Prepared) {
			x := p.(*prepared).container
			if err := x.engine.cli.ContainerKill(limited(t), x.id, "KILL"); err != nil {
				t.Fatal(err)
			}
		},
		Later: func(t testing.TB, earlier sandbox.Backend) sandbox.Backend {
			return another(t, earlier.(*Backend).options.Owner)
		},
		Count: func(t testing.TB, b sandbox.Backend) int {
			return len(slices.DeleteFunc(containersOf(t, b.(*Backend)), func(c container.Summary) bool {
				return c.Labels[labelLease] != "" && c.State == container.StateExited // it is the next sweep that removes it
			}))
		},
	}
}

// boxOf is the container of an instance, with a lease or without.
func boxOf(i sandbox.Instance) *box {
	if k, ok := i.(*keptInstance); ok {
		return k.box
	}
	return i.(*instance).box
}

// containersOf lists what the engine has of the backend's owner, in any state.
func containersOf(t testing.TB, b *Backend) []container.Summary {
	t.Helper()
	e, err := b.current(limited(t))
	if err != nil {
		t.Fatal(err)
	}
	list, err := e.cli.ContainerList(context.Background(), container.ListOptions{
		All: true, Filters: filters.NewArgs(filters.Arg("label", labelOwner+"="+b.options.Owner)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}
