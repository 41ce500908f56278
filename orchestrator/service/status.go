package service

import (
	"context"

	"brig/orchestrator/api"
)

func (v *view) Status(ctx context.Context) (api.Status, error) { return api.Status{}, unbuilt() }

func (v *view) Backends(ctx context.Context) (api.BackendList, error) {
	return api.BackendList{}, unbuilt()
}
