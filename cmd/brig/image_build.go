package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"brig/images"
	"brig/orchestrator/sandbox"
)

func (p *program) imageBuildCommand() *cobra.Command {
	tier, image, asJSON := newTierFlag(), "", false
	c := &cobra.Command{
		Use:   "build",
		Short: "Build the image that containers run, if it is not there already",
		Args:  noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return p.imageBuild(c.Context(), tier.value, image, asJSON)
		},
	}
	c.Flags().Var(once("--tier", &tier), "tier", "`TIER` of the image: core (standard library), standard (numpy, pandas, matplotlib…) or full (scipy, scikit-learn, polars… too); default: the setting docker.tier")
	c.Flags().Var(once("--image", &word{value: &image, flag: "image"}), "image", "build on top of your own image, `REF`, which is on the engine and has Python 3.8 or later; default: the setting docker.image")
	tier.complete(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object when it is done")
	return c
}

func (p *program) imageBuild(parent context.Context, tier, image string, asJSON bool) (err error) {
	sig := watchSignals(parent)
	defer sig.close()
	defer func() { err = sig.rename(err) }()
	return p.withEngine(sig.ctx, func(a *assembly, s settings, trust *images.Trust) error {
		if err := chooseImage(&s.Config, tier, image); err != nil {
			return err
		}
		choice, err := images.Parse(s.Config.BaseFor(sandbox.Docker).Image)
		if err != nil {
			return usage("brig config show docker.image", "%s", err)
		}
		drawing := newProgress(p.tui.stderr)
		ref, err := trust.Ensure(sig.ctx, a.docker, choice, drawing.show)
		drawing.done(err)
		if err != nil {
			return explainImage(err)
		}
		if asJSON {
			base := images.DefaultBase
			if choice.Reference != "" {
				base = choice.Reference
			}
			return p.printJSON(imageRow{
				Tier: choice.Tier, Image: choice.Reference, Condition: images.Ready, ID: ref.ID, Tag: ref.Tag, Content: ref.Content,
				Base: base, BaseID: ref.Base, Digest: ref.Digest, Size: ref.Size, Created: since(ref.Created), Built: ref.Built,
			})
		}
		state := "was there already"
		if ref.Built {
			state = "built"
		}
		fmt.Fprintf(p.tui.stdout, "%s  %s  %s  %s\n", ref.Tag, shortID(ref.ID), size(ref.Size), state)
		return nil
	})
}
