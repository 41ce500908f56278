package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"brig/orchestrator"
	"brig/orchestrator/sandbox"
	"brig/selftest"
)

// forecastTimeout bounds how long a backend may take to say what it would enforce,
// where only an earlier self-test is to be held against it.
const forecastTimeout = 2 * time.Second

// selftestRecords is where reports of earlier self-tests are kept.
func selftestRecords(s settings) string { return filepath.Join(s.Paths.State, "selftest") }

func keepReport(s settings, r selftest.Report) error {
	return selftest.Save(selftestRecords(s), r)
}

// remembered is an earlier self-test, and why it says nothing about now.
type remembered struct {
	selftest.Report
	Stale string `json:"stale,omitempty"`
}

// remembered are the earlier self-tests, each held against this machine, this brig
// and what its backend would enforce now.
func (p *program) remembered(ctx context.Context, a *assembly, s settings) []remembered {
	var all []remembered
	build := ""
	for _, record := range selftest.Load(selftestRecords(s)) {
		if build == "" {
			build = readBuild()
		}
		r := remembered{Report: record}
		base := s.Config.BaseFor(record.Backend)
		switch record.Backend {
		case sandbox.Docker:
			base.Runtime = record.Variant
		case sandbox.Host:
			base.Mode = sandbox.Mode(record.Variant)
		}
		policy, err := policyNow(ctx, a, record.Backend, base)
		if err != nil {
			policy = record.Policy // that it cannot be used now is said elsewhere
		}
		r.Stale, _ = selftest.Stale(record, selftest.ThisMachine(), build, policy)
		all = append(all, r)
	}
	return all
}

// policyNow is the digest of what a backend would enforce now.
func policyNow(ctx context.Context, a *assembly, kind sandbox.Kind, base sandbox.Base) (string, error) {
	b := a.backend(kind)
	if b == nil {
		return "", errNoSubject
	}
	ctx, cancel := context.WithTimeout(ctx, forecastTimeout)
	defer cancel()
	facts, err := b.Probe(ctx)
	if err != nil {
		return "", err
	}
	layers, err := b.Capabilities(ctx, base)
	if err != nil {
		return "", err
	}
	return selftest.Policy(kind, identityOf(facts, base), layers), nil
}

// identityOf names what would run the code: the engine or the interpreter, and the image.
func identityOf(f sandbox.Facts, base sandbox.Base) string {
	return strings.Join([]string{f.Endpoint, f.Version, f.Details["executable"], f.Details["kernel"], base.Image}, "\n")
}

// selftestState is an earlier self-test in short.
type selftestState struct {
	Backend sandbox.Kind   `json:"backend"`
	Variant string         `json:"variant,omitempty"`
	Holds   selftest.Holds `json:"holds"`
	Line    string         `json:"line"`
	Started time.Time      `json:"started"`
	Stale   string         `json:"stale,omitempty"` // why it does not count any more
	Current bool           `json:"current"`         // it is about what would run now
}

// selftestStates are the earlier self-tests beside what would run now.
func (p *program) selftestStates(ctx context.Context, a *assembly, s settings, now orchestrator.Resolution) []selftestState {
	kind, variant := p.wouldRun(ctx, a, s, now)
	var states []selftestState
	for _, r := range p.remembered(ctx, a, s) {
		current := r.Backend == kind && (variant == "" || r.Variant == variant)
		states = append(states, selftestState{r.Backend, r.Variant, r.Holds, r.Line, r.Started, r.Stale, current})
	}
	return states
}

// wouldRun is the backend and variant that a self-test has to be about to say
// anything of code that runs now. Without a variant all of the backend are.
func (p *program) wouldRun(ctx context.Context, a *assembly, s settings, now orchestrator.Resolution) (sandbox.Kind, string) {
	kind := now.Resolved
	if now.Err != nil && refusedForWant(now) {
		kind = sandbox.Host
	}
	switch kind {
	case sandbox.Host:
		return kind, string(s.Config.BaseFor(kind).Mode)
	case sandbox.Docker:
		// Where it cannot be told, each counts.
		runtime, _, err := a.docker.Runtime(ctx, s.Config.BaseFor(kind))
		if err != nil {
			return kind, ""
		}
		return kind, runtime
	}
	return kind, ""
}

func (s selftestState) String() string {
	if !s.Current {
		return fmt.Sprintf("%s: tried on %s, not what would run now (%s)",
			subjectName(s.Backend, s.Variant), s.Started.Local().Format("2006-01-02 15:04"), cut(s.Line, 60))
	}
	text := fmt.Sprintf("%s: %s (%s)", subjectName(s.Backend, s.Variant), cut(s.Line, 60), s.Started.Local().Format("2006-01-02 15:04"))
	if s.Stale != "" {
		text += "; stale: " + s.Stale
	}
	return text
}

// again is the command that repeats it, where there is a reason to.
func (s selftestState) again() string {
	if !s.Current || s.Stale == "" && s.Holds == selftest.Held {
		return ""
	}
	return "brig selftest --backend " + string(s.Backend)
}

// lastSelftest shows what earlier self-tests saw.
func (p *program) lastSelftest(parent context.Context, o selftestOptions) error {
	return p.looking(parent, func(ctx context.Context, s settings, a *assembly) error {
		shown := []remembered{}
		for _, r := range p.remembered(ctx, a, s) {
			if o.backend.value == "" || o.backend.value == allBackends || o.backend.value == string(r.Backend) {
				shown = append(shown, r)
			}
		}
		if len(shown) == 0 {
			return neverTested(o.backend.value)
		}
		var missing []absent
		for _, kind := range []sandbox.Kind{sandbox.Docker, sandbox.Host} {
			tested := slices.ContainsFunc(shown, func(r remembered) bool { return r.Backend == kind })
			if o.backend.value == allBackends && !tested {
				missing = append(missing, absentBecause(kind, "", neverTested(string(kind))))
			}
		}
		var reports []selftest.Report
		for _, r := range shown {
			reports = append(reports, r.Report)
		}
		unwritten := p.writeReport(o, reports, missing)
		if o.json {
			if unwritten != nil {
				return unwritten
			}
			answer := map[string]any{"reports": shown}
			if len(missing) > 0 {
				answer["absent"] = missing
			}
			return p.printJSON(answer)
		}
		for _, r := range shown {
			if o.report == "-" {
				break
			}
			p.printSelftest(r.Report, o.evidence)
			p.tui.note("that was on %s", r.Started.Local().Format("2006-01-02 15:04"))
			if r.Stale != "" {
				p.tui.warn("stale: " + escapeLine(r.Stale))
				p.tui.hint("brig selftest --backend " + string(r.Backend))
			}
		}
		p.tellMissing(o, missing)
		return unwritten
	})
}

// neverTested says that there is no record, of one backend where one was asked for.
func neverTested(which string) *failure {
	f := &failure{Code: "selftest-never", Message: "no self-test has run here yet", Remedy: "brig selftest", Exit: exitFailed}
	if which == string(sandbox.Docker) || which == string(sandbox.Host) {
		f.Message = "no self-test of " + which + " has run here yet"
		f.Remedy = "brig selftest --backend " + which
	}
	return f
}
