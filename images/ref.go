package images

import (
	"fmt"
	"strings"
	"time"
)

// Labels of a runner image. They are part of the image and cannot be changed later.
const (
	LabelKind      = "dev.brig.image"     // "runner", or "build" for a stage that an engine may keep as cache
	LabelTier      = "dev.brig.tier"      // the tier, or "own"
	LabelRunner    = "dev.brig.runner"    // runner.Hash of the source inside
	LabelContent   = "dev.brig.content"   // hash of what it was built from, see recipe
	LabelBase      = "dev.brig.base"      // ID of the base image
	LabelReference = "dev.brig.reference" // of the user's own image, as the user wrote it then
	labelStage     = "dev.brig.stage"     // on what a build on a user's image makes on the way: which image and runner
)

// repository is the local name of every image that brig builds.
const repository = "brig-runner"

// Ref is one runner image on an engine.
type Ref struct {
	ID      string // what containers are created from
	Tag     string // for people; empty: it has none of brig's
	Choice  Choice
	Content string
	Runner  string
	Base    string // ID of the base image it was built from
	Digest  string // name@sha256:… of the user's own image, if it came from a registry
	Created time.Time
	Used    time.Time // when this machine last took it for a session; zero: not known
	Size    int64     // bytes, with what it shares with others
	Built   bool      // Ensure built it just now
}

// Identity is the image in the stamp of a result: the user's own with its digest or
// else its ID, and what containers are really made from.
func (r Ref) Identity() string {
	made := fmt.Sprintf("%s (%.19s)", r.Tag, r.ID)
	if r.Choice.Reference == "" {
		return made
	}
	if r.Digest != "" {
		return fmt.Sprintf("%s (%s) as %s", r.Choice.Reference, r.Digest, made)
	}
	return fmt.Sprintf("%s (%.19s) as %s", r.Choice.Reference, r.Base, made)
}

// Tag is the name under which people find the image of a choice with that content hash.
func Tag(c Choice, content string) string {
	return fmt.Sprintf("%s:%s-%.12s", repository, c.label(), content)
}

// refOf reads an image's labels. They are claims: see Trust.trusted.
func refOf(f Found) Ref {
	ref := Ref{
		ID: f.ID, Content: f.Labels[LabelContent], Runner: f.Labels[LabelRunner], Base: f.Labels[LabelBase],
		Created: f.Created, Size: f.Size,
	}
	if tier := f.Labels[LabelTier]; tier == own {
		ref.Choice.Reference = f.Labels[LabelReference]
	} else {
		ref.Choice.Tier = Tier(tier)
	}
	for _, tag := range f.Tags {
		if local(tag) == Tag(ref.Choice, ref.Content) {
			ref.Tag = tag
		}
	}
	return ref
}

// local takes away what some engines write before the name of an image that has
// no registry. Nobody but the engine's own users can put an image there.
func local(tag string) string {
	for _, prefix := range []string{"localhost/", "docker.io/library/"} {
		if rest, ok := strings.CutPrefix(tag, prefix); ok {
			return rest
		}
	}
	return tag
}
