package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"brig/images"
)

func (p *program) imageRemoveCommand() *cobra.Command {
	var s images.Selection
	dry, asJSON := false, false
	c := &cobra.Command{
		Use:   "rm [TIER|TAG|REF|ID]...",
		Short: "Remove images that brig built",
		Long: `Remove images that brig built: those of a tier, those on top of your own image REF,
or a single one by its tag or the beginning of its id. Nothing that brig did not
build is ever removed, your own image REF neither, and what a container uses stays.

What is removed and wanted again is built again, which may need the network.`,
		Example: `  brig image rm --stale
  brig image rm full
  brig image rm --all --dry-run`,
		RunE: func(c *cobra.Command, args []string) error {
			s.Names = args
			if len(args) == 0 && !s.Stale && !s.All {
				return usage("brig image rm --stale", "nothing was named to be removed")
			}
			return p.imageRemove(c.Context(), s, dry, asJSON)
		},
		ValidArgs: tiers(),
	}
	c.Flags().BoolVar(&s.Stale, "stale", false, "what this brig does not use any more, and what builds left as a cache")
	c.Flags().BoolVar(&s.All, "all", false, "everything that brig built on this engine")
	c.Flags().BoolVar(&dry, "dry-run", false, "say what would be removed and remove nothing")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func (p *program) imageRemove(parent context.Context, s images.Selection, dry, asJSON bool) (err error) {
	sig := watchSignals(parent)
	defer sig.close()
	defer func() { err = sig.rename(err) }()
	return p.withEngine(sig.ctx, func(a *assembly, _ settings, trust *images.Trust) error {
		chosen, unknown := trust.Select(sig.ctx, a.docker, s)
		var name *images.UnknownImageError
		if unknown != nil && (len(chosen) == 0 || !errors.As(unknown, &name)) {
			return explainImage(unknown)
		}
		removed := chosen
		var failed error
		if !dry {
			removed, failed = trust.Remove(sig.ctx, a.docker, chosen)
		}
		if asJSON {
			rows, stay := []imageOther{}, []imageOther{}
			for _, c := range removed {
				row := imageOther{ID: c.ID, Tag: c.Tag, Why: c.Why, Size: c.Size, Created: c.Created, Containers: c.Used}
				if dry && c.Used > 0 {
					stay = append(stay, row)
					continue
				}
				rows = append(rows, row)
			}
			answer := map[string]any{"left": len(chosen) - len(removed)}
			if dry {
				answer["would_remove"], answer["would_stay"] = rows, stay
			} else {
				answer["removed"] = rows
			}
			switch {
			case failed != nil:
				answer["error"] = leftImages(len(chosen)-len(removed), failed)
			case unknown != nil:
				answer["error"] = explainImage(unknown)
			}
			if err := p.printJSON(answer); err != nil || failed == nil && unknown == nil {
				return err
			}
			return ended(exitFailed)
		}
		p.printRemoved(removed, dry)
		switch {
		case failed != nil:
			return leftImages(len(chosen)-len(removed), errors.Join(failed, unknown))
		case unknown != nil: // the others are gone all the same
			return explainImage(unknown)
		}
		return nil
	})
}

// leftImages is what becomes of images that the engine would not give up.
func leftImages(n int, err error) *failure {
	var used *images.UsedImageError
	if errors.As(err, &used) {
		what := strings.ReplaceAll(err.Error(), "\n", "; ")
		return &failure{
			Code: "image-in-use", Message: what, Remedy: "docker ps --all --filter ancestor=" + shortID(used.ID), Exit: exitFailed, err: err,
		}
	}
	return &failure{
		Code: "image-left", Message: fmt.Sprintf("%s could not be removed: %s", count(n, "image"), strings.ReplaceAll(err.Error(), "\n", "; ")),
		Remedy: "docker ps --all", Exit: exitFailed, err: err,
	}
}

func (p *program) printRemoved(removed []images.Candidate, dry bool) {
	for _, c := range removed {
		verb, why := "removed", c.Why
		switch {
		case dry && c.Used > 0:
			verb, why = "would stay", "used by "+count(c.Used, "container")
		case dry:
			verb = "would remove"
		}
		fmt.Fprintf(p.tui.stdout, "%s  %s  %s  %s (%s)\n", verb, cmp.Or(c.Tag, "(no name)"), shortID(c.ID), size(c.Size), escapeLine(why))
	}
	if len(removed) == 0 {
		fmt.Fprintln(p.tui.stdout, "nothing to remove")
	}
}
