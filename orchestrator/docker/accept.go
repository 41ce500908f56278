package docker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"brig/images"
	"brig/orchestrator/sandbox"
)

// accepted is what a Base asks for, in this engine's terms.
type accepted struct {
	runtime runtimeChoice
	image   images.Choice
	profile string // of system calls
	lease   time.Duration
}

// accept says what becomes of a Base on this engine, or why nothing can. Forecast
// and start ask it alike, so no page promises what a start refuses.
func (e *engine) accept(base sandbox.Base) (a accepted, err error) {
	if memory := base.Limits.WithDefaults().Memory; memory < minMemory {
		return a, misset("memory-too-small", "brig config show limits.memory", nil,
			"a memory limit of %d bytes is too small for a container, which needs at least %d", memory, minMemory)
	}
	if base.Network != sandbox.NetworkDeny && base.Network != sandbox.NetworkLoopback && base.Network != "" {
		return a, misset("network-not-offered", "brig run --backend host", nil, "containers are not offered the network %q", base.Network)
	}
	if a.lease = base.Lease; e.podman {
		a.lease = 0 // podman ends the input of a container with the stream: there the files stay, and not the interpreter
	}
	if a.image, err = images.Parse(base.Image); err != nil {
		return a, misset("image-unknown", "brig config show docker.tier docker.image", err, "%s", err)
	}
	if a.runtime, err = e.pickRuntime(base.Runtime); err != nil {
		return a, err
	}
	if a.profile, err = seccompProfile(e.version.Arch); err != nil {
		return a, unavailable(e.endpoint, "engine-architecture", err, "its machine is one that brig has no filter for", e.undoOr("docker version"))
	}
	return a, nil
}

// misset is the refusal of something that the settings ask for and that is not there.
func misset(code, remedy string, cause error, format string, args ...any) *sandbox.Unavailable {
	return &sandbox.Unavailable{
		Backend: sandbox.Docker, Code: code, Reason: fmt.Sprintf(format, args...), Remedy: remedy, Settings: true, Err: cause,
	}
}

// foresee says why no image could be made for a choice. What it finds is remembered
// for the start, so that asking costs nothing on top.
func (b *Backend) foresee(ctx context.Context, e *engine, c images.Choice) error {
	if _, known := b.remembered(e, c); known {
		return nil
	}
	s, err := b.images.Look(ctx, b, c)
	switch {
	case err != nil:
		return fmt.Errorf("look for the runner image: %w", err)
	case s.Current != nil:
		b.remember(e, *s.Current)
	case s.Err != nil:
		return b.noImage(ctx, c, s.Err)
	case s.BaseID == "":
		return b.noImage(ctx, c, &images.MissingBaseError{Base: s.Base})
	}
	return nil
}

// noImage says why there is no image. That the base of a tier is missing is a step
// down and no mistake of the settings: it is the default, and getting it is a download
// that is not brig's to start. An image that the user names is a setting.
func (b *Backend) noImage(ctx context.Context, c images.Choice, err error) error {
	var missing *images.MissingBaseError
	var unusable *images.OwnImageError
	switch {
	case errors.As(err, &missing):
		return &sandbox.Unavailable{
			Backend: sandbox.Docker, Code: "image-base-missing",
			Reason: fmt.Sprintf("the runner image cannot be built: the base image %s is not on the engine (for one without a registry see docs/images.md)", missing.Base),
			Remedy: missing.Remedy(), Err: missing,
		}
	case errors.As(err, &unusable):
		u := misset(unusable.Code, unusable.Remedy(), err, "the image %s %s", unusable.Reference, unusable.Reason)
		u.Settings = c.Reference != ""
		return u
	case ctx.Err() != nil:
		return err
	}
	return &sandbox.Unavailable{
		Backend: sandbox.Docker, Code: "image-not-built",
		Reason: "the runner image could not be built: " + oneLine(err.Error(), 300),
		Remedy: c.Command(), Err: err, Settings: c.Reference != "",
	}
}

// ensure turns a choice into a trusted image.
func (b *Backend) ensure(ctx context.Context, c images.Choice) (images.Ref, error) {
	ref, err := b.images.Ensure(ctx, b, c, b.options.Progress)
	if err != nil {
		return images.Ref{}, b.noImage(ctx, c, err)
	}
	return ref, nil
}

// refLasts is how long an image is taken without asking again: asking costs as much
// as a tenth of a start, and a tag that the user moves should be noticed soon.
const refLasts = 30 * time.Second

// trusted is ensure, remembered for the engine. An image that has been removed since
// is noticed at the create.
func (b *Backend) trusted(ctx context.Context, e *engine, c images.Choice) (images.Ref, error) {
	if ref, ok := b.remembered(e, c); ok {
		return ref, nil
	}
	ref, err := b.ensure(ctx, c)
	if err == nil {
		b.remember(e, ref)
	}
	return ref, err
}

// imageKey is an image on an engine, as b.refs knows it.
type imageKey struct {
	engine, endpoint string
	choice           images.Choice
}

type rememberedRef struct {
	images.Ref
	at time.Time
}

func (b *Backend) remember(e *engine, ref images.Ref) {
	b.refs.Store(imageKey{e.info.ID, e.endpoint, ref.Choice}, rememberedRef{ref, time.Now()})
}

func (b *Backend) remembered(e *engine, c images.Choice) (images.Ref, bool) {
	found, ok := b.refs.Load(imageKey{e.info.ID, e.endpoint, c})
	if !ok || time.Since(found.(rememberedRef).at) > refLasts {
		return images.Ref{}, false
	}
	return found.(rememberedRef).Ref, true
}
