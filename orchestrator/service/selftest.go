package service

import (
	"context"

	"brig/orchestrator/api"
)

func (v *view) Selftest(ctx context.Context, r api.SelftestRequest) (api.Selftest, error) {
	return api.Selftest{}, unbuilt()
}

func (v *view) FindSelftest(ctx context.Context, id string, o api.FindOptions) (api.Selftest, error) {
	return api.Selftest{}, unbuilt()
}

func (v *view) Selftests(ctx context.Context, p api.Page) (api.SelftestList, error) {
	return api.SelftestList{}, unbuilt()
}

func (v *view) FollowSelftest(ctx context.Context, id string, after uint64, emit func(api.Event) error) error {
	return unbuilt()
}
