package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"brig/orchestrator"
	"brig/orchestrator/sandbox"
)

// lookTimeout bounds what status and doctor wait for, whatever hangs.
const lookTimeout = 8 * time.Second

func (p *program) statusCommand() *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:   "status",
		Short: "Where code would run now, why, and what holds there",
		Long: `Show which backend is configured and which one would be used now, why, and what
each layer of containment would be there. It is a forecast: what held for a run
is on its own result (brig run --json).

Exit status 0 if code would run, 125 if it would be refused.`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return p.status(c.Context(), asJSON) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

// statusAnswer is the one object of "brig status --json".
type statusAnswer struct {
	Resolution orchestrator.Resolution `json:"resolution"`
	Endpoint   string                  `json:"endpoint,omitempty"`
	Source     string                  `json:"source,omitempty"`
	Version    string                  `json:"version,omitempty"`
	Layers     []sandbox.Layer         `json:"layers"`
	Warnings   []string                `json:"warnings"`
	Consent    *consent                `json:"uncontained_accepted,omitempty"`
}

func (p *program) status(parent context.Context, asJSON bool) (err error) {
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

	r, err := a.orchestrator.Resolve(ctx, "")
	if err != nil {
		return err
	}
	s := statusAnswer{Resolution: r, Layers: []sandbox.Layer{}, Warnings: []string{}}
	if b := a.backend(r.Resolved); b != nil {
		if facts, err := b.Probe(ctx); err == nil {
			s.Endpoint, s.Source, s.Version = redact(facts.Endpoint), redact(facts.Source), facts.Version
		}
		layers, err := b.Capabilities(ctx, settings.Config.BaseFor(b.Kind()))
		if err != nil {
			return fmt.Errorf("ask what %s can enforce: %w", r.Resolved, err)
		}
		s.Layers = layers
	}
	s.Warnings = append(s.Warnings, orchestrator.Warnings(r, sandbox.Posture{})...)
	if c, given := consentOf(settings.Paths); given {
		s.Consent = &c
	}
	if asJSON {
		if err := p.printJSON(s); err != nil {
			return err
		}
	} else {
		p.printStatus(s)
	}
	if r.Err != nil {
		return ended(exitFailed)
	}
	return nil
}

func (p *program) printStatus(s statusAnswer) {
	out, r := p.tui.stdout, s.Resolution
	fmt.Fprintf(out, "configured  %s\n", r.Configured)
	fmt.Fprintf(out, "resolved    %s\n", cmp.Or(string(r.Resolved), "nothing: code is refused"))
	if r.Mode != "" {
		fmt.Fprintf(out, "mode        %s\n", r.Mode)
	}
	if s.Endpoint != "" {
		fmt.Fprintf(out, "uses        %s %s (%s)\n", escapeLine(s.Endpoint), escapeLine(s.Version), escapeLine(s.Source))
	}
	if c := s.Consent; c != nil {
		fmt.Fprintf(out, "uncontained %s\n            %s\n", escapeLine(c.String()), escapeLine(c.revoke()))
	}
	p.announce(r, sandbox.Posture{})
	if len(s.Layers) == 0 {
		return
	}
	fmt.Fprintln(out)
	for _, l := range s.Layers {
		p.printLayer(l)
	}
}

// printLayer shows one layer; a gap says why and what would close it.
func (p *program) printLayer(l sandbox.Layer) {
	out := p.tui.stdout
	state := fmt.Sprintf("%-11s", l.State)
	if l.State != sandbox.Enforced {
		state = out.styled(styleWarning, state)
	}
	fmt.Fprintf(out, "  %-17s %s %s\n", l.ID, state, escapeLine(cmp.Or(l.Mechanism, l.Reason)))
	if l.State == sandbox.Enforced {
		return
	}
	if l.Mechanism != "" && l.Reason != "" {
		fmt.Fprintf(out, "  %-17s %-11s %s\n", "", "", escapeLine(l.Reason))
	}
	if l.Remedy != "" {
		fmt.Fprintf(out, "  %-17s %-11s to change it: %s\n", "", "", escapeLine(l.Remedy))
	}
}
