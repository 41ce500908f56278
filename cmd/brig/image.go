package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"brig/images"
	"brig/orchestrator/config"
	"brig/orchestrator/sandbox"
)

func tiers() []string {
	var names []string
	for _, t := range images.Tiers() {
		names = append(names, string(t))
	}
	return names
}

func (p *program) imageCommand() *cobra.Command {
	c := group(&cobra.Command{
		Use:   "image",
		Short: "The images that containers run",
		Long: `brig builds the images of its containers itself: those of the tiers from what is
embedded in it, on top of debian:trixie-slim, and your own with its runner on top.
It pulls nothing and trusts no tag: an image counts when its label is the hash of
what this brig would build it from.

After a build, images that it supersedes are removed if this brig has used them: not
the two that were used last, if that was within 14 days, and not what a container
uses. Those that another installation built on the same engine are left to it.`,
	})
	c.AddCommand(p.imageBuildCommand(), p.imageStatusCommand(), p.imageRemoveCommand())
	return c
}

// chooseImage applies --tier and --image to the settings of one command. What stands
// on the command line replaces what is configured, of either kind.
func chooseImage(c *config.Config, tier, image string) error {
	switch {
	case tier != "" && image != "":
		return usage("leave one of the two out", "--tier and --image each name an image")
	case tier != "":
		c.Docker.Tier, c.Docker.Image = config.Tier(tier), ""
	case image != "":
		c.Docker.Image = image
	}
	if _, err := images.Parse(c.BaseFor(sandbox.Docker).Image); image != "" && err != nil {
		return usage("write it as: --image registry.example/team/analysis:2", "%s", err)
	}
	return nil
}

// configuredImage is the user's own image, if one is configured: nothing else tells
// Status about it before it is built.
func configuredImage(c config.Config) []images.Choice {
	if choice, err := images.Parse(c.BaseFor(sandbox.Docker).Image); err == nil && choice.Reference != "" {
		return []images.Choice{choice}
	}
	return nil
}

// withEngine does something with a whole brig whose engine answers.
func (p *program) withEngine(ctx context.Context, do func(a *assembly, s settings, trust *images.Trust) error) error {
	return p.withBrig(ctx, func(s settings, a *assembly) error {
		if _, err := a.docker.Probe(ctx); err != nil {
			return err
		}
		return do(a, s, p.trust(s.Paths))
	})
}

// imageRow is one choice in --json.
type imageRow struct {
	Tier      images.Tier      `json:"tier,omitempty"`
	Image     string           `json:"image,omitempty"` // the user's own
	Condition images.Condition `json:"condition"`
	Reason    string           `json:"reason,omitempty"`
	ID        string           `json:"id,omitempty"`
	Tag       string           `json:"tag,omitempty"`
	Content   string           `json:"content,omitempty"`
	Base      string           `json:"base"`
	BaseID    string           `json:"base_id,omitempty"`
	Digest    string           `json:"digest,omitempty"`
	Size      int64            `json:"size_bytes,omitempty"`
	Created   *time.Time       `json:"created,omitempty"`
	LastUsed  *time.Time       `json:"last_used,omitempty"`
	Others    []imageOther     `json:"others,omitempty"`
	Built     bool             `json:"built,omitempty"`
	Remedy    string           `json:"remedy,omitempty"`
}

// imageOther is an image that would be removed, or could be.
type imageOther struct {
	ID         string     `json:"id"`
	Tag        string     `json:"tag,omitempty"`
	Why        string     `json:"why"`
	Size       int64      `json:"size_bytes"`
	Created    time.Time  `json:"created"`
	LastUsed   *time.Time `json:"last_used,omitempty"`
	Containers int        `json:"containers,omitempty"`
}

// since is a time in JSON, or nothing where it is not known.
func since(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// shortID is an image's id as people know it.
func shortID(id string) string {
	id = strings.TrimPrefix(id, "sha256:")
	return id[:min(12, len(id))]
}

// ago is a time as people say it.
func ago(t, now time.Time) string {
	switch d := now.Sub(t); {
	case d < 2*time.Minute:
		return "just now"
	case d < 2*time.Hour:
		return fmt.Sprintf("%d minutes ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d hours ago", int(d.Hours()))
	default:
		return fmt.Sprintf("%d days ago", int(d.Hours()/24))
	}
}

// explainImage adds the command to type to what can go wrong with images.
func explainImage(err error) error {
	var base *images.MissingBaseError
	var unusable *images.OwnImageError
	var unknown *images.UnknownImageError
	switch {
	case errors.As(err, &base):
		return &failure{
			Code: "base-missing", Message: fmt.Sprintf("the base image %s is not on this engine, and brig pulls nothing by itself (for one without a registry see docs/images.md)", base.Base),
			Remedy: base.Remedy(), Exit: exitFailed, err: err,
		}
	case errors.As(err, &unusable):
		return &failure{
			Code: unusable.Code, Message: fmt.Sprintf("the image %s %s", unusable.Reference, unusable.Reason),
			Remedy: unusable.Remedy(), Exit: exitFailed, err: err,
		}
	case errors.As(err, &unknown):
		return &failure{Code: "image-unknown", Message: unknown.Error(), Remedy: "brig image status", Exit: exitFailed, err: err}
	}
	return err
}
