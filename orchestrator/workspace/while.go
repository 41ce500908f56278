package workspace

import (
	"context"
	"io"
)

// While reads r until ctx ends; then its error is the cause of that. A Read that is
// under way is not cut short.
func While(ctx context.Context, r io.Reader) io.Reader { return whileReader{ctx, r} }

type whileReader struct {
	ctx context.Context
	r   io.Reader
}

func (w whileReader) Read(p []byte) (int, error) {
	if w.ctx.Err() != nil {
		return 0, context.Cause(w.ctx)
	}
	return w.r.Read(p)
}
