package service

import (
	"context"

	"brig/orchestrator/api"
)

func (v *view) Run(ctx context.Context, session string, r api.RunRequest, o api.RunOptions, emit func(api.Event) error) (api.Run, error) {
	return api.Run{}, unbuilt()
}

func (v *view) Start(ctx context.Context, session string, r api.RunRequest, o api.RunOptions) (api.Run, error) {
	return api.Run{}, unbuilt()
}

func (v *view) FindRun(ctx context.Context, run string, o api.FindOptions) (api.Run, error) {
	return api.Run{}, unbuilt()
}

func (v *view) Runs(ctx context.Context, session string, p api.Page) (api.RunList, error) {
	return api.RunList{}, unbuilt()
}

func (v *view) CancelRun(ctx context.Context, run string) (api.Run, error) {
	return api.Run{}, unbuilt()
}
