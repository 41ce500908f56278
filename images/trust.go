package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"
	"time"

	"brig/orchestrator/runner"
)

// DefaultBase is what the runner image is built from.
const DefaultBase = "debian:trixie-slim"

// Labels of a runner image. They are part of the image and cannot be changed later.
const (
	LabelKind    = "dev.brig.image"   // "runner", or "build" for the stage that an engine may keep as cache
	LabelTier    = "dev.brig.tier"    // the tier
	LabelRunner  = "dev.brig.runner"  // runner.Hash of the source inside
	LabelContent = "dev.brig.content" // ContentHash of what it was built from
	LabelBase    = "dev.brig.base"    // ID of the base image
)

// MissingBaseError says that an image has to be built and its base is not there.
// brig never pulls by itself: what comes from a registry is the user's decision.
type MissingBaseError struct{ Base string }

func (e *MissingBaseError) Error() string {
	return fmt.Sprintf("the base image %s is not on this engine; get it with: %s", e.Base, e.Remedy())
}

// Remedy is the command to type.
func (e *MissingBaseError) Remedy() string { return "docker pull " + e.Base }

// Options of a Trust.
type Options struct {
	// Base replaces DefaultBase.
	Base string
	// Env gives the mirror settings that a build honours: see mirrorArgs. nil means none.
	Env func(string) (string, bool)
}

// Trust finds and builds runner images on one engine. It may be used concurrently.
type Trust struct {
	base string
	env  func(string) (string, bool)
	turn chan struct{} // one build at a time
}

// New returns a Trust. It asks nothing of any engine.
func New(o Options) *Trust {
	if o.Base == "" {
		o.Base = DefaultBase
	}
	if o.Env == nil {
		o.Env = func(string) (string, bool) { return "", false }
	}
	return &Trust{base: o.Base, env: o.Env, turn: make(chan struct{}, 1)}
}

// Ref is one trusted image.
type Ref struct {
	ID      string // what containers are created from
	Tag     string // for people
	Tier    Tier
	Content string
	Runner  string
	Base    string // ID of the base image it was built from
	Created time.Time
	Size    int64
	Built   bool // Ensure built it just now
}

// Tag is the name under which people find the image of a tier with that content hash.
func Tag(tier Tier, content string) string {
	return fmt.Sprintf("brig-runner:%s-%.12s", tier, content)
}

// Ensure returns the trusted image of the tier and builds it when the engine does
// not have it, or has it on another base than the one there now. Two brigs may do
// so at once: both then find the same tag. The error is a *MissingBaseError where a
// build is needed and its base is missing.
func (t *Trust) Ensure(ctx context.Context, b Builder, tier Tier, progress func(Progress)) (Ref, error) {
	return t.ensure(ctx, b, tier, progress, false)
}

// Rebuild is Ensure that builds even where the trusted image is there. The engine's
// build cache makes that quick unless the base has changed.
func (t *Trust) Rebuild(ctx context.Context, b Builder, tier Tier, progress func(Progress)) (Ref, error) {
	return t.ensure(ctx, b, tier, progress, true)
}

func (t *Trust) ensure(ctx context.Context, b Builder, tier Tier, progress func(Progress), always bool) (Ref, error) {
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return Ref{}, context.Cause(ctx)
	}
	content, err := ContentHash(tier)
	if err != nil {
		return Ref{}, err
	}
	base, err := t.baseID(ctx, b)
	if err != nil {
		return Ref{}, err
	}
	ref, found, err := pick(ctx, b, tier, content, base)
	if err != nil || found && !always {
		return ref, err
	}
	if base == "" {
		return Ref{}, &MissingBaseError{Base: t.base}
	}
	if err := t.build(ctx, b, tier, content, base, progress); err != nil {
		return Ref{}, fmt.Errorf("build the %s runner image: %w", tier, err)
	}
	ref, found, err = pick(ctx, b, tier, content, base)
	if err != nil {
		return Ref{}, err
	}
	if !found {
		return Ref{}, fmt.Errorf("build the %s runner image: the engine reports success but has no image with the label %s=%s",
			tier, LabelContent, content)
	}
	ref.Built = true
	return ref, nil
}

// baseID is empty when the engine does not have the base image.
func (t *Trust) baseID(ctx context.Context, b Builder) (string, error) {
	id, err := b.ImageID(ctx, t.base)
	if errors.Is(err, ErrNoImage) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("look up the base image %s: %w", t.base, err)
	}
	return id, nil
}

func (t *Trust) build(ctx context.Context, b Builder, tier Tier, content, base string, progress func(Progress)) error {
	authority, err := t.authority()
	if err != nil {
		return err
	}
	tarball, err := buildContext(authority)
	if err != nil {
		return err
	}
	args := mirrorArgs(t.env)
	args["BASE"] = t.base
	args["TIER"] = string(tier)
	args["RUNNER_HASH"] = runner.Hash()
	args["CONTENT_HASH"] = content
	args["BASE_ID"] = base
	return b.Build(ctx, Request{
		Context: tarball, Dockerfile: dockerfileName, Tag: Tag(tier, content), Args: args,
	}, progress)
}

// authority is the certificate bundle that pip is told to trust on the user's
// machine, so that a mirror behind an inspecting proxy works in the build as well.
func (t *Trust) authority() ([]byte, error) {
	name, ok := t.env("PIP_CERT")
	if !ok || name == "" {
		return nil, nil
	}
	const most = 4 << 20
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read the certificates that PIP_CERT names: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, fmt.Errorf("read the certificates that PIP_CERT names: %w", err)
	}
	if len(text) > most {
		return nil, fmt.Errorf("read the certificates that PIP_CERT names: %s is larger than %d bytes", name, most)
	}
	return text, nil
}

// mirrorArgs are the build arguments that decide where packages come from. What
// may come is decided by the hashes in requirements.txt and by apt's signatures.
func mirrorArgs(env func(string) (string, bool)) map[string]string {
	args := map[string]string{}
	for _, name := range []string{"PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST", "PIP_DEFAULT_TIMEOUT", "APT_MIRROR"} {
		if value, ok := env(name); ok && value != "" {
			args[name] = value
		}
	}
	for _, name := range []string{"http_proxy", "https_proxy", "no_proxy"} {
		for _, spelling := range []string{name, strings.ToUpper(name)} {
			if value, ok := env(spelling); ok && value != "" {
				args[spelling] = value
			}
		}
	}
	return args
}

// pick chooses among the images with that content. base empty means any base.
func pick(ctx context.Context, b Builder, tier Tier, content, base string) (Ref, bool, error) {
	found, err := b.FindImages(ctx, LabelContent, content)
	if err != nil {
		return Ref{}, false, fmt.Errorf("look for the %s runner image: %w", tier, err)
	}
	var refs []Ref
	for _, f := range found {
		ref := refOf(f)
		if !trusted(ref, tier, content) || base != "" && ref.Base != base {
			continue
		}
		refs = append(refs, ref)
	}
	if len(refs) == 0 {
		return Ref{}, false, nil
	}
	// Of two that brigs built at the same time, everybody takes the tagged one.
	sort.Slice(refs, func(i, j int) bool {
		if a, b := refs[i].Tag != "", refs[j].Tag != ""; a != b {
			return a
		}
		if !refs[i].Created.Equal(refs[j].Created) {
			return refs[i].Created.After(refs[j].Created)
		}
		return refs[i].ID < refs[j].ID
	})
	return refs[0], true, nil
}

// trusted is the whole rule.
func trusted(r Ref, tier Tier, content string) bool {
	return r.Content == content && r.Tier == tier && r.Runner == runner.Hash()
}

func refOf(f Found) Ref {
	ref := Ref{
		ID: f.ID, Tier: Tier(f.Labels[LabelTier]), Content: f.Labels[LabelContent],
		Runner: f.Labels[LabelRunner], Base: f.Labels[LabelBase], Created: f.Created, Size: f.Size,
	}
	want := Tag(ref.Tier, ref.Content)
	for _, tag := range f.Tags {
		if tag == want || strings.HasSuffix(tag, "/"+want) { // some engines write "localhost/" or "docker.io/library/" before it
			ref.Tag = tag
		}
	}
	return ref
}
