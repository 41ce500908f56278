package images

import (
	"context"
	"errors"
	"time"
)

// ErrNoImage is Builder.Inspect's answer to a reference that the engine does not have.
var ErrNoImage = errors.New("no such image")

// Builder is the engine as this package needs it. All methods may be called
// concurrently; ctx bounds each call, and a cancelled Build stops on the engine too.
type Builder interface {
	// Machine says which engine this is.
	Machine(ctx context.Context) (Machine, error)
	// FindImages lists the images that carry the label, in any order.
	FindImages(ctx context.Context, label, value string) ([]Found, error)
	// Inspect describes an image on the engine, never one at a registry; ErrNoImage if it is not there.
	Inspect(ctx context.Context, reference string) (Details, error)
	// TagImage gives an image another name.
	TagImage(ctx context.Context, id, name string) error
	// Build builds and tags. It never pulls. progress may be nil; it is called on one
	// goroutine and must not block for long. A step that fails is a *StepError.
	Build(ctx context.Context, r Request, progress func(Progress)) error
	// RemoveImage removes a name, or an image with its only name. One that a container
	// uses is an ErrInUse; one that is not there is no error.
	RemoveImage(ctx context.Context, id string) error
	// Uses counts the containers of each image, by its ID, whether they run or not.
	Uses(ctx context.Context) (map[string]int, error)
}

// ErrInUse says that an image was not removed because something still needs it.
var ErrInUse = errors.New("the image is in use")

// Machine is what distinguishes an engine.
type Machine struct {
	ID           string // the same for everybody who reaches this engine
	Architecture string // amd64, arm64…
}

// Request is one build.
type Request struct {
	Context    []byte // a tar
	Dockerfile string // its name in the tar
	Tag        string
	Args       map[string]string
	Offline    bool // the steps get no network
}

// Found is an image on the engine.
type Found struct {
	ID      string
	Tags    []string
	Labels  map[string]string
	Created time.Time
	Size    int64 // bytes, with what it shares with others
}

// Details are what matters of an image that another one is built on.
type Details struct {
	ID           string
	Digests      []string // name@sha256:…, as a registry knows it; empty for one that never was there
	OS           string
	Architecture string
	Env          []string // NAME=value
	Labels       map[string]string
	Volumes      []string // paths that it declares
	OnBuild      []string // instructions that it plants into builds on top of it
}

// Progress is one thing that a build said. Text is the engine's or a build
// step's own words: whoever draws it on a terminal escapes it.
type Progress struct {
	Step, Total int    // zero before the first step
	Text        string // one line, without its end
	Instruction bool   // Text is the step's instruction rather than its output
	Note        bool   // Text is brig's own: what it waits for, or why it goes another way
}

// StepError is a build step that failed.
type StepError struct {
	Step    string   // its instruction
	Message string   // the engine's
	Tail    []string // the last lines that the step said
}

func (e *StepError) Error() string {
	text := e.Message
	if e.Step != "" {
		text = "in \"" + e.Step + "\": " + text
	}
	for _, line := range e.Tail {
		text += "\n  " + line
	}
	return text
}
