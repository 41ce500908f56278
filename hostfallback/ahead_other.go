//go:build !linux && !darwin

package hostfallback

import (
	"context"

	"brig/hostfallback/confine"
)

// head would be a supervisor that was started before its plan is known. Here the
// start needs the plan.
type head struct{ executable string }

func ahead(executable string) *head { return &head{executable} }

func (h *head) launch(ctx context.Context, plan confine.Plan) (*process, confine.Started, error) {
	return launch(ctx, h.executable, plan)
}

func (h *head) drop() {}
