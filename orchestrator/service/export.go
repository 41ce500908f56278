package service

import (
	"context"
	"io"

	"brig/orchestrator/api"
)

func (v *view) Export(ctx context.Context, session string, f api.ExportFormat) (io.ReadCloser, error) {
	if _, err := v.find(ctx, session); err != nil {
		return nil, err
	}
	return nil, unbuilt()
}
