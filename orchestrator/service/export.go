package service

import (
	"context"
	"io"

	"brig/orchestrator/api"
)

func (v *view) Export(ctx context.Context, session string, f api.ExportFormat) (io.ReadCloser, error) {
	return nil, unbuilt()
}
