package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
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
is on its own result (brig run --json). Where a brig runs that stays (brig up) and
has the same settings, it is asked.

Exit status 0 if code would run, also after a self-test that brig run would make
first, 125 if it would be refused.`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return p.status(c.Context(), asJSON) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

// statusAnswer is the one object of "brig status --json".
type statusAnswer struct {
	Brig       *brigAnswer             `json:"brig,omitempty"` // the one that stays
	Resolution orchestrator.Resolution `json:"resolution"`
	Endpoint   string                  `json:"endpoint,omitempty"`
	Source     string                  `json:"source,omitempty"`
	Version    string                  `json:"version,omitempty"`
	Remarks    []string                `json:"remarks,omitempty"` // about the backend, such as that nobody has verified it on this system
	Engine     engineAnswer            `json:"engine"`
	Sessions   sessionsAnswer          `json:"sessions"`
	Cleared    clearedAnswer           `json:"cleared"`
	Selftest   []selftestState         `json:"selftest,omitempty"` // the latest of each backend and variant
	Layers     []sandbox.Layer         `json:"layers"`
	Warnings   []string                `json:"warnings"`
	TestsFirst string                  `json:"tests_first,omitempty"` // brig run tests the host sandbox before the code, and why
	Consent    *consent                `json:"uncontained_accepted,omitempty"`
}

func (p *program) status(parent context.Context, asJSON bool) error {
	return p.looking(parent, func(ctx context.Context, settings settings, a *assembly) error {
		s, err := p.lookAround(ctx, settings, a)
		if err != nil {
			return err
		}
		if asJSON {
			if err := p.printJSON(s); err != nil {
				return err
			}
		} else {
			p.printStatus(s)
		}
		if s.Resolution.Err != nil {
			return ended(exitFailed)
		}
		return nil
	})
}

// lookAround gathers everything that status shows.
func (p *program) lookAround(ctx context.Context, settings settings, a *assembly) (statusAnswer, error) {
	s := statusAnswer{Layers: []sandbox.Layer{}, Warnings: []string{}, Sessions: sessionsOf(settings.Config)}
	var err error
	if s.Brig, err = p.lookAtBrig(ctx, settings); err != nil {
		return s, err
	}
	var r orchestrator.Resolution
	if s.Brig.decides() {
		r = s.Brig.resolution
	} else if r, err = a.orchestrator.Resolve(ctx, ""); err != nil {
		return s, err
	}
	s.Engine = p.lookAtEngine(ctx, a, settings)
	r, s.TestsFirst = p.afterTest(ctx, a, settings, r)
	s.Resolution = r
	if b := a.backend(r.Resolved); b != nil {
		u := s.Engine.used
		if b.Kind() != sandbox.Docker {
			u = lookAt(ctx, b)
		}
		s.Endpoint, s.Source, s.Version = u.Endpoint, u.Source, u.Version
		if b.Kind() != sandbox.Docker { // which has its own below engine
			s.Remarks = u.Warnings
		}
		if s.Brig.decides() {
			s.Layers = s.Brig.layers
		} else if s.Layers, err = b.Capabilities(ctx, settings.Config.BaseFor(b.Kind())); err != nil {
			return s, fmt.Errorf("ask what %s can enforce: %w", r.Resolved, err)
		}
	}
	s.Warnings = append(s.Warnings, orchestrator.Warnings(r, sandbox.Posture{})...)
	if c, given := consentOf(settings.Paths); given {
		s.Consent = &c
	}
	s.Cleared = clearUp(ctx, a.orchestrator)
	s.Selftest = p.selftestStates(ctx, a, settings, r)
	return s, nil
}

func (p *program) printStatus(s statusAnswer) {
	out, r := p.tui.stdout, s.Resolution
	fmt.Fprintf(out, "configured  %s\n", r.Configured)
	fmt.Fprintf(out, "resolved    %s\n", cmp.Or(string(r.Resolved), "nothing: code is refused"))
	if r.Mode != "" {
		fmt.Fprintf(out, "mode        %s\n", modeWords(r.Mode))
	}
	if s.Endpoint != "" {
		fmt.Fprintf(out, "uses        %s %s (%s)\n", escapeLine(s.Endpoint), escapeLine(s.Version), escapeLine(s.Source))
	}
	for _, remark := range s.Remarks {
		fmt.Fprintf(out, "remark      %s\n", escapeLine(remark))
	}
	if r.Resolved == sandbox.Docker {
		p.printEngine(s.Engine)
	}
	warm := s.Sessions.warm()
	if s.Brig != nil {
		fmt.Fprintf(out, "brig        %s\n", escapeLine(s.Brig.String()))
		warm = s.Brig.warm()
	}
	fmt.Fprintf(out, "warm        %s\nkept        %s\n", escapeLine(warm), s.Sessions.kept())
	for i, t := range s.Selftest {
		fmt.Fprintf(out, "%-11s %s\n", []string{"self-test", ""}[min(i, 1)], escapeLine(t.String()))
		if again := t.again(); again != "" {
			fmt.Fprintf(out, "            → %s\n", again)
		}
	}
	if len(s.Selftest) == 0 {
		fmt.Fprintln(out, "self-test   never run: brig selftest")
	}
	if left := s.Cleared.String(); left != "" {
		fmt.Fprintf(out, "cleared     %s\n", escapeLine(left))
	}
	if c := s.Consent; c != nil {
		fmt.Fprintf(out, "uncontained %s\n            %s\n", escapeLine(c.String()), escapeLine(c.revoke()))
	}
	if s.Brig != nil {
		for _, problem := range s.Brig.Problems {
			p.tui.warn(escapeLine(problem))
		}
		if s.Brig.Differs != "" {
			p.tui.note("the brig that stays has another %s than there is here; to let it read its settings anew: %s", s.Brig.Differs, downAndUp)
		}
	}
	if s.TestsFirst != "" {
		p.tui.note("%s", escapeLine(s.TestsFirst))
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

// printEngine shows what would be used of the engine, and what it warns of.
func (p *program) printEngine(e engineAnswer) {
	out := p.tui.stdout
	if e.Runtime != "" {
		fmt.Fprintf(out, "runtime     %s (%s)\n", escapeLine(e.Runtime), escapeLine(e.RuntimeWhy))
	}
	for _, s := range e.Images {
		if !s.wanted {
			continue
		}
		fmt.Fprintf(out, "image       %s\n", escapeLine(strings.TrimSpace(fmt.Sprintf("%s %s %s", s.Name, s.Condition, s.Tag))))
		if s.Remedy != "" {
			fmt.Fprintf(out, "            → %s\n", escapeLine(s.Remedy))
		}
	}
	for _, warning := range e.Warnings {
		fmt.Fprintf(out, "warned      %s\n", escapeLine(warning))
	}
}

// printLayer shows one layer; a gap says why and what would close it.
func (p *program) printLayer(l sandbox.Layer) {
	out := p.tui.stdout
	state := fmt.Sprintf("%-11s", stateWords(l))
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
