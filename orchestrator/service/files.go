package service

import (
	"context"
	"io"

	"brig/orchestrator/api"
)

func (v *view) Files(ctx context.Context, session, prefix string, p api.Page) (api.FileList, error) {
	return api.FileList{}, unbuilt()
}

func (v *view) StatFile(ctx context.Context, session, path string) (api.File, error) {
	return api.File{}, unbuilt()
}

func (v *view) ReadFile(ctx context.Context, session, path string, r api.Range) (io.ReadCloser, api.File, error) {
	return nil, api.File{}, unbuilt()
}

func (v *view) WriteFile(ctx context.Context, session, path string, content io.Reader, o api.WriteOptions) (api.File, error) {
	return api.File{}, unbuilt()
}

func (v *view) RemoveFile(ctx context.Context, session, path string, o api.RemoveOptions) error {
	return unbuilt()
}
