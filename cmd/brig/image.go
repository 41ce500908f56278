package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"brig/images"
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
		Long: `brig builds the image of its containers itself, from what is embedded in it, on
top of debian:trixie-slim. It pulls nothing and trusts no tag: an image counts
when its label is the hash of what this brig would build it from.`,
	})
	c.AddCommand(p.imageBuildCommand(), p.imageStatusCommand())
	return c
}

// imageRow is one tier in --json.
type imageRow struct {
	Tier      images.Tier      `json:"tier"`
	Condition images.Condition `json:"condition"`
	ID        string           `json:"id,omitempty"`
	Tag       string           `json:"tag"`
	Content   string           `json:"content"`
	Base      string           `json:"base"`
	BaseID    string           `json:"base_id,omitempty"`
	Size      int64            `json:"size_bytes,omitempty"`
	Created   *time.Time       `json:"created,omitempty"`
	Others    []string         `json:"others,omitempty"`
	Built     bool             `json:"built,omitempty"`
	Remedy    string           `json:"remedy,omitempty"`
}

func (p *program) imageBuildCommand() *cobra.Command {
	tier, asJSON := newTierFlag(), false
	c := &cobra.Command{
		Use:   "build",
		Short: "Build the image that containers run, if it is not there already",
		Args:  noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return p.imageBuild(c.Context(), tier.value, asJSON)
		},
	}
	c.Flags().Var(once("--tier", &tier), "tier", "`TIER` of the image: core (standard library) or standard (numpy, pandas, matplotlib…); default: the setting docker.tier")
	tier.complete(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object when it is done")
	return c
}

func (p *program) imageBuild(parent context.Context, name string, asJSON bool) (err error) {
	settings, err := p.loadSettings()
	if err != nil {
		return err
	}
	if name == "" {
		name = string(settings.Config.Docker.Tier)
	}
	tier, err := images.ParseTier(name)
	if err != nil {
		return usage("brig image build --tier standard", "%s", err)
	}
	sig := watchSignals(parent)
	defer sig.close()
	defer func() { err = sig.rename(err) }()
	a, err := p.assemble(settings, assembleOptions{silent: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.close(parent)) }()
	if _, err := a.docker.Probe(sig.ctx); err != nil {
		return err
	}
	drawing := newProgress(p.tui.stderr)
	ref, err := p.trust().Ensure(sig.ctx, a.docker, tier, drawing.show)
	drawing.done(err)
	if err != nil {
		return explainImage(err)
	}
	if asJSON {
		return p.printJSON(imageRow{
			Tier: ref.Tier, Condition: images.Ready, ID: ref.ID, Tag: ref.Tag, Content: ref.Content,
			Base: images.DefaultBase, BaseID: ref.Base, Size: ref.Size, Created: &ref.Created, Built: ref.Built,
		})
	}
	state := "was there already"
	if ref.Built {
		state = "built"
	}
	fmt.Fprintf(p.tui.stdout, "%s  %s  %s  %s\n", ref.Tag, shortID(ref.ID), size(ref.Size), state)
	return nil
}

// explainImage adds the command to type to what can go wrong with a build.
func explainImage(err error) error {
	var base *images.MissingBaseError
	if errors.As(err, &base) {
		return &failure{
			Code: "base-missing", Message: fmt.Sprintf("the base image %s is not on this engine, and brig pulls nothing by itself", base.Base),
			Remedy: "" + base.Remedy(), Exit: exitFailed, err: err,
		}
	}
	return err
}

func (p *program) imageStatusCommand() *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:   "status",
		Short: "Which images are there, and whether this brig trusts them",
		Args:  noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return p.imageStatus(c.Context(), asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func (p *program) imageStatus(parent context.Context, asJSON bool) (err error) {
	settings, err := p.loadSettings()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(parent, lookTimeout)
	defer cancel()
	a, err := p.assemble(settings, assembleOptions{silent: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.close(parent)) }()
	if _, err := a.docker.Probe(ctx); err != nil {
		return err
	}
	states, err := p.trust().Status(ctx, a.docker)
	if err != nil {
		return err
	}
	var rows []imageRow
	for _, s := range states {
		row := imageRow{
			Tier: s.Tier, Condition: s.Condition, Tag: s.Tag, Content: s.Want, Base: s.Base, BaseID: s.BaseID, Remedy: s.Remedy,
		}
		if s.Current != nil {
			row.ID, row.Size, row.Created = s.Current.ID, s.Current.Size, &s.Current.Created
		}
		for _, o := range s.Others {
			row.Others = append(row.Others, o.ID)
		}
		rows = append(rows, row)
	}
	if asJSON {
		return p.printJSON(map[string]any{"images": rows})
	}
	for _, r := range rows {
		line := fmt.Sprintf("%-9s %-8s %s", r.Tier, r.Condition, r.Tag)
		if r.ID != "" {
			line += fmt.Sprintf("  %s  %s", shortID(r.ID), size(r.Size))
		}
		if n := len(r.Others); n > 0 {
			line += fmt.Sprintf("  (%s of other content)", count(n, "image"))
		}
		fmt.Fprintln(p.tui.stdout, line)
		if r.Remedy != "" {
			p.tui.hint("" + r.Remedy)
		}
	}
	return nil
}

// shortID is an image's id as people know it.
func shortID(id string) string {
	id = strings.TrimPrefix(id, "sha256:")
	return id[:min(12, len(id))]
}
