package images

import (
	"context"
	"errors"
	"io"
	"time"
)

// ErrNoImage is Builder.ImageID's answer to a reference that the engine does not have.
var ErrNoImage = errors.New("no such image")

// Builder is the engine as this package needs it. All methods may be called
// concurrently; ctx bounds each call, and a cancelled Build stops on the engine too.
type Builder interface {
	// FindImages lists the images that carry the label, in any order.
	FindImages(ctx context.Context, label, value string) ([]Found, error)
	// ImageID resolves a reference on the engine, never at a registry; ErrNoImage if it is not there.
	ImageID(ctx context.Context, reference string) (string, error)
	// Build builds and tags; it reads r.Context to its end or fails. It never pulls.
	// progress may be nil; it is called on one goroutine and must not block for long.
	Build(ctx context.Context, r Request, progress func(Progress)) error
	// RemoveImage removes an image that no container uses; one in use is an error.
	RemoveImage(ctx context.Context, id string) error
}

// Request is one build.
type Request struct {
	Context    io.Reader // a tar
	Dockerfile string    // its name in the tar
	Tag        string
	Args       map[string]string
}

// Found is an image on the engine.
type Found struct {
	ID      string
	Tags    []string
	Labels  map[string]string
	Created time.Time
	Size    int64
}

// Progress is one thing that a build said. Text is the engine's or a build
// step's own words: whoever draws it on a terminal escapes it.
type Progress struct {
	Step, Total int    // zero before the first step
	Text        string // one line, without its end
	Instruction bool   // Text is the step's instruction rather than its output
}
