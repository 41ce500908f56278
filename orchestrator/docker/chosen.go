package docker

import (
	"context"

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
