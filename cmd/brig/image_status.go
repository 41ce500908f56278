package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"brig/images"
)

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

func (p *program) imageStatus(parent context.Context, asJSON bool) error {
	ctx, cancel := context.WithTimeout(parent, lookTimeout)
	defer cancel()
	return p.withEngine(ctx, func(a *assembly, s settings, trust *images.Trust) error {
		states, err := trust.Status(ctx, a.docker, configuredImage(s.Config)...)
		if err != nil {
			return err
		}
		free, err := trust.Select(ctx, a.docker, images.Selection{Stale: true})
		if err != nil {
			return err
		}
		var rows []imageRow
		for _, s := range states {
			rows = append(rows, rowOf(s, free))
		}
		stale, others, most := 0, 0, int64(0)
		var mine []string
		for _, c := range free {
			switch {
			case c.Used > 0:
			case c.Mine:
				stale++
				most += c.Size
				mine = append(mine, cmp.Or(c.Tag, shortID(c.ID)))
			default:
				others++
			}
		}
		if asJSON {
			return p.printJSON(map[string]any{"images": rows, "removable": stale, "removable_bytes_at_most": most, "of_others": others})
		}
		for _, r := range rows {
			p.printImage(r)
		}
		if stale > 0 {
			fmt.Fprintf(p.tui.stdout, "\n%s that this brig used and uses no more, at most %s: much of it is shared with others\n", count(stale, "image"), size(most))
			p.tui.hint("brig image rm " + strings.Join(mine, " "))
		}
		if others > 0 {
			fmt.Fprintf(p.tui.stdout, "\n%s more of a brig's that this one never used: another user of this engine may; brig image rm --stale --dry-run lists them\n", count(others, "image"))
		}
		return nil
	})
}

// rowOf is a state as it is shown; removable are the images that are of no more use.
func rowOf(s images.State, removable []images.Candidate) imageRow {
	row := imageRow{
		Tier: s.Choice.Tier, Image: s.Choice.Reference, Condition: s.Condition, Reason: s.Reason, Tag: s.Tag, Content: s.Want,
		Base: s.Base, BaseID: s.BaseID, Remedy: s.Remedy,
	}
	if c := s.Current; c != nil {
		row.ID, row.Size, row.Digest, row.Created, row.LastUsed = c.ID, c.Size, c.Digest, since(c.Created), since(c.Used)
	}
	for _, o := range s.Others {
		other := imageOther{ID: o.ID, Tag: o.Tag, Why: o.Why, Size: o.Size, Created: o.Created, LastUsed: since(o.Used)}
		for _, c := range removable {
			if c.ID == o.ID {
				other.Containers = c.Used
			}
		}
		row.Others = append(row.Others, other)
	}
	return row
}

func (p *program) printImage(r imageRow) {
	now := time.Now()
	line := fmt.Sprintf("%-9s %-8s %s", escapeLine(cmp.Or(r.Image, string(r.Tier))), r.Condition, r.Tag)
	if r.ID != "" {
		line += fmt.Sprintf("  %s  %s  built %s", shortID(r.ID), size(r.Size), ago(*r.Created, now))
		if r.LastUsed != nil {
			line += ", used " + ago(*r.LastUsed, now)
		}
	}
	if r.Reason != "" {
		line += "  (" + escapeLine(r.Reason) + ")"
	}
	fmt.Fprintln(p.tui.stdout, line)
	for _, o := range r.Others {
		use := ""
		if o.Containers > 0 {
			use = ", used by " + count(o.Containers, "container")
		}
		fmt.Fprintf(p.tui.stdout, "          %-8s %s  %s  %s  built %s%s: %s\n", images.Stale, cmp.Or(o.Tag, "(no name)"), shortID(o.ID), size(o.Size), ago(o.Created, now), use, escapeLine(o.Why))
	}
	if r.Remedy != "" {
		p.tui.hint(r.Remedy)
	}
}
