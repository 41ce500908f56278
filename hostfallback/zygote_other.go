//go:build !linux

package hostfallback

import (
	"context"
	"errors"

	"brig/hostfallback/confine"
	"brig/orchestrator/sandbox"
)

// forksHere says whether there are zygotes on this system.
const forksHere = false

// zygote is made on Linux only: elsewhere a process cannot give up after a fork what it had before.
func (b *Backend) zygote(sandbox.Base, interpreter, zygoteKey, confine.Plan, confine.Report) (*zygote, error) {
	return nil, errors.ErrUnsupported
}

func (z *zygote) fork(context.Context, confine.Plan) (*process, confine.Started, error) {
	return nil, confine.Started{}, errors.ErrUnsupported
}
