package service

import (
	"context"

	"brig/orchestrator/api"
)

func (v *view) Follow(ctx context.Context, run string, after uint64, emit func(api.Event) error) error {
	return unbuilt()
}

func (v *view) Watch(ctx context.Context, after uint64, emit func(api.Event) error) error {
	return unbuilt()
}
