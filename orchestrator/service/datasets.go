package service

import (
	"context"

	"brig/orchestrator/api"
)

func (v *view) PutDataset(ctx context.Context, session, name string, r api.DatasetRequest) (api.Dataset, error) {
	if _, err := v.find(ctx, session); err != nil {
		return api.Dataset{}, err
	}
	return api.Dataset{}, unbuilt()
}

func (v *view) Datasets(ctx context.Context, session string) (api.DatasetList, error) {
	if _, err := v.find(ctx, session); err != nil {
		return api.DatasetList{}, err
	}
	return api.DatasetList{}, unbuilt()
}

func (v *view) RemoveDataset(ctx context.Context, session, name string) error { return unbuilt() }
