package main

import (
	"fmt"
	"slices"

	"brig/orchestrator/sandbox"
	"brig/selftest"
)

// listedProbe is a probe as "brig selftest --list --json" has it.
type listedProbe struct {
	ID       string              `json:"id"`
	Layer    sandbox.LayerID     `json:"layer"`
	Severity selftest.Severity   `json:"severity"`
	Claim    string              `json:"claim"`
	Attempt  string              `json:"attempt"`
	Observed string              `json:"observed"`
	Witness  selftest.Witness    `json:"witness"`
	Blocked  []selftest.Evidence `json:"blocked"`
	Fix      string              `json:"fix,omitempty"`
}

// listProbes shows the catalogue, or those of it that --probe names, by layer.
func (p *program) listProbes(o selftestOptions) error {
	rows := []listedProbe{}
	for _, layer := range sandbox.Layers() {
		for _, pr := range selftest.Catalogue() {
			wanted := len(o.only) == 0 || slices.Contains(o.only, pr.ID) || slices.Contains(o.only, string(pr.Layer))
			if pr.Layer == layer && wanted {
				rows = append(rows, listedProbe{
					pr.ID, pr.Layer, pr.Severity, pr.Claim, pr.Attempt, pr.Observed, pr.Witness, pr.Blocked, pr.Fix,
				})
			}
		}
	}
	if o.json {
		return p.printJSON(map[string]any{"probes": rows})
	}
	layer := sandbox.LayerID("")
	for _, r := range rows {
		if r.Layer != layer {
			layer = r.Layer
			fmt.Fprintf(p.tui.stdout, "%s\n", layer)
		}
		p.wrapped(fmt.Sprintf("  %-26s  %-8s  ", r.ID, r.Severity), "                                        ", r.Claim)
		if o.evidence {
			p.wrapped("      tries: ", "             ", r.Attempt)
			p.wrapped("      seen:  ", "             ", r.Observed)
		}
	}
	fmt.Fprintf(p.tui.stdout, "\n%s\n", count(len(rows), "probe"))
	return nil
}
