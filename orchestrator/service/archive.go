package service

import (
	"context"
	"io"

	"brig/orchestrator/api"
)

func (v *view) ReadArchive(ctx context.Context, session, prefix string, f api.ArchiveFormat) (io.ReadCloser, error) {
	return nil, unbuilt()
}

func (v *view) WriteArchive(ctx context.Context, session, prefix string, f api.ArchiveFormat, content io.Reader) (api.ArchiveResult, error) {
	return api.ArchiveResult{}, unbuilt()
}
