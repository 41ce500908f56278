package docker

import (
	"context"
	"errors"
	"fmt"

	"brig/images"
	"brig/orchestrator/sandbox"
)

// accepted is what a Base asks for, in this engine's terms.
type accepted struct {
	runtime runtimeChoice
	tier    images.Tier
	profile string // of system calls
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
	if a.tier, err = images.ParseTier(base.Image); err != nil {
		return a, misset("image-unknown", "brig config show docker.tier", err, "%s", err)
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

// foresee says why no image could be made for a tier. What it finds is remembered
// for the start, so that asking costs nothing on top.
func (b *Backend) foresee(ctx context.Context, e *engine, tier images.Tier) error {
	if _, known := b.refs.Load(e.imageKey(tier)); known {
		return nil
	}
	states, err := b.images.Status(ctx, b)
	if err != nil {
		return fmt.Errorf("look for the runner image: %w", err)
	}
	for _, s := range states {
		switch {
		case s.Tier != tier:
		case s.Current != nil:
			b.refs.Store(e.imageKey(tier), *s.Current)
		case s.BaseID == "":
			return baseMissing(&images.MissingBaseError{Base: s.Base})
		}
	}
	return nil
}

// baseMissing is a step down and no mistake of the settings: what is missing is
// the default, and getting it is a download that is not brig's to start.
func baseMissing(missing *images.MissingBaseError) *sandbox.Unavailable {
	return &sandbox.Unavailable{
		Backend: sandbox.Docker, Code: "image-base-missing",
		Reason: fmt.Sprintf("the runner image cannot be built: the base image %s is not on the engine", missing.Base),
		Remedy: missing.Remedy(), Err: missing,
	}
}

// ensureImage turns a tier into a trusted image.
func (b *Backend) ensureImage(ctx context.Context, tier images.Tier) (images.Ref, error) {
	ref, err := b.images.Ensure(ctx, b, tier, b.options.Progress)
	var missing *images.MissingBaseError
	if errors.As(err, &missing) {
		return images.Ref{}, baseMissing(missing)
	}
	if err != nil && ctx.Err() == nil {
		return images.Ref{}, &sandbox.Unavailable{
			Backend: sandbox.Docker, Code: "image-not-built",
			Reason: "the runner image could not be built: " + oneLine(err.Error(), 300),
			Remedy: "brig image build --tier " + string(tier), Err: err,
		}
	}
	return ref, err
}

// trusted is ensureImage, remembered for the engine: asking costs as much as a
// tenth of a start. An image that has been removed since is noticed at the create.
func (b *Backend) trusted(ctx context.Context, e *engine, tier images.Tier) (images.Ref, error) {
	key := e.imageKey(tier)
	if ref, ok := b.refs.Load(key); ok {
		return ref.(images.Ref), nil
	}
	ref, err := b.ensureImage(ctx, tier)
	if err == nil {
		b.refs.Store(key, ref)
	}
	return ref, err
}

// imageKey is an image on an engine, as b.refs knows it.
type imageKey struct {
	engine, endpoint string
	tier             images.Tier
}

func (e *engine) imageKey(tier images.Tier) imageKey { return imageKey{e.info.ID, e.endpoint, tier} }
