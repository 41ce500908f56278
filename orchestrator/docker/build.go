package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/docker/docker/api/types/build"

	"brig/images"
)

// cancelTimeout bounds telling the engine that a build is not wanted any more.
const cancelTimeout = 5 * time.Second

// Build uses the builder that the engine calls its default, and the other one where
// that one cannot even begin: some engines lack one of the two. A build that fails
// in one of its steps would fail in the other builder as well.
func (b *Backend) Build(ctx context.Context, r images.Request, progress func(images.Progress)) error {
	e, err := b.current(ctx)
	if err != nil {
		return err
	}
	if progress == nil {
		progress = func(images.Progress) {}
	}
	ping, err := e.cli.Ping(ctx)
	if err != nil {
		return b.orGone(ctx, e, err)
	}
	first, second := build.BuilderV1, build.BuilderBuildKit
	if ping.BuilderVersion == build.BuilderBuildKit {
		first, second = second, first
	}
	begun, err := e.build(ctx, first, r, progress)
	if err == nil || begun || ctx.Err() != nil {
		return b.buildError(ctx, e, err)
	}
	progress(images.Progress{Note: true, Text: fmt.Sprintf("%s could not begin (%s); trying %s",
		builderName(first), oneLine(err.Error(), 200), builderName(second))})
	begun, other := e.build(ctx, second, r, progress)
	if other != nil && !begun {
		other = errors.Join(err, other)
	}
	return b.buildError(ctx, e, other)
}

// buildError leaves a step's failure as it is; any other may mean that the engine is gone.
func (b *Backend) buildError(ctx context.Context, e *engine, err error) error {
	var failed *images.StepError
	if err == nil || errors.As(err, &failed) && failed.Step != "" {
		return err
	}
	return b.orGone(ctx, e, err)
}

func builderName(v build.BuilderVersion) string {
	if v == build.BuilderBuildKit {
		return "BuildKit"
	}
	return "the classic builder"
}

// build tells whether a step began. When ctx ends, the connection does, and with it
// the build on the engine; BuildKit is told besides, for it may look up only then.
func (e *engine) build(ctx context.Context, version build.BuilderVersion, r images.Request, progress func(images.Progress)) (begun bool, err error) {
	args := map[string]*string{}
	for name, value := range r.Args {
		args[name] = &value
	}
	options := build.ImageBuildOptions{
		Version: version, Dockerfile: r.Dockerfile, Tags: []string{r.Tag}, BuildArgs: args,
		Remove: true, ForceRemove: true, PullParent: false,
	}
	if r.Offline {
		options.NetworkMode = "none"
	}
	heard := func(p images.Progress) {
		begun = begun || p.Instruction
		progress(p)
	}
	read := readClassic
	if version == build.BuilderBuildKit {
		read = readBuildKit
		options.BuildID = r.Tag + " " + time.Now().Format(time.RFC3339Nano)
		defer func() {
			if ctx.Err() == nil {
				return
			}
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
			defer cancel()
			_ = e.cli.BuildCancel(ctx, options.BuildID) // the connection's end is the first word, this the second
		}()
	}
	response, err := e.cli.ImageBuild(ctx, bytes.NewReader(r.Context), options)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	body := &answer{Reader: response.Body}
	if err := read(body, heard); err != nil {
		if ctx.Err() != nil {
			return begun, context.Cause(ctx)
		}
		return begun, err
	}
	if !body.some { // a proxy on the way can end a stream without a word
		return begun, errors.New("the engine said nothing about the build")
	}
	return begun, nil
}

// answer remembers whether there was one.
type answer struct {
	io.Reader
	some bool
}

func (a *answer) Read(p []byte) (int, error) {
	n, err := a.Reader.Read(p)
	a.some = a.some || n > 0
	return n, err
}
