package docker

import (
	"context"
	"strings"

	"brig/orchestrator/sandbox"
)

// Runtime tells with which of the engine's runtimes a container of that base would
// run, and why with that one. Its errors are those of Capabilities.
func (b *Backend) Runtime(ctx context.Context, base sandbox.Base) (name, why string, err error) {
	e, err := b.current(ctx)
	if err != nil {
		return "", "", err
	}
	r, err := e.pickRuntime(base.Runtime)
	if err != nil {
		return "", "", err
	}
	return printable(r.engine), r.why, nil
}

// Runtimes lists the engine's runtimes by the names that docker.runtime takes, the
// engine's default first. Shims that only are another name of the default are left
// out, and so is everything that Podman lists, for it lists what is not installed.
func (b *Backend) Runtimes(ctx context.Context) ([]string, error) {
	e, err := b.current(ctx)
	if err != nil {
		return nil, err
	}
	names := []string{e.info.DefaultRuntime}
	if e.podman {
		return names, nil
	}
	for _, name := range sortedNames(e.info.Runtimes) {
		if name != e.info.DefaultRuntime && !strings.HasPrefix(name, "io.containerd.runc.") && !strings.HasPrefix(name, "io.containerd.runtime.") {
			names = append(names, name)
		}
	}
	return names, nil
}
