package docker

import (
	"context"
	"os"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"brig/images"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/sandbox/sandboxtest"
)

func TestConformance(t *testing.T) {
	engineBackend(t, images.Core) // builds the image before anything is measured
	owner := "suite-" + token()
	sandboxtest.Run(t, sandboxtest.Factory{
		Owner: owner,
		New: func(t testing.TB) sandbox.Backend {
			b, err := New(Options{Env: os.LookupEnv, Owner: owner, Process: token()})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := b.Probe(t.Context()); err != nil {
				t.Fatal(err)
			}
			return b
		},
		Base:   coreBase(),
		Python: true,
		Tree: func(t testing.TB, i sandbox.Instance) []sandboxtest.Process {
			x := i.(*instance).box
			state, err := x.engine.cli.ContainerInspect(limited(t), x.id)
			if err != nil {
				t.Fatal(err)
			}
			return sandboxtest.ProcTree(state.State.Pid)
		},
		Alive: func(_ testing.TB, _ sandbox.Instance, p sandboxtest.Process) bool { return sandboxtest.ProcAlive(p) },
		Lose: func(t testing.TB, i sandbox.Instance) {
			x := i.(*instance).box
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
			b, err := New(Options{Env: os.LookupEnv, Owner: earlier.(*Backend).options.Owner, Process: token()})
			if err != nil {
				t.Fatal(err)
			}
			return b
		},
		Count: func(t testing.TB, b sandbox.Backend) int { return len(containersOf(t, b.(*Backend))) },
	})
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
