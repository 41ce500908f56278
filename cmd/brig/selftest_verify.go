package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"brig/orchestrator"
	"brig/orchestrator/sandbox"
	"brig/selftest"
)

// This file is about host.sandbox = "require": code runs in the host sandbox only
// where a self-test that still counts saw every promised layer block.

// hostVerdicts are those of the latest self-test of the host sandbox that counts.
// They are never nil: that nothing was seen is an answer.
func (p *program) hostVerdicts(ctx context.Context, a *assembly, s settings) map[sandbox.LayerID]sandbox.Verdict {
	if r, counts := p.hostReport(ctx, a, s); counts {
		return selftest.Verdicts(r)
	}
	return map[sandbox.LayerID]sandbox.Verdict{}
}

// hostReport is the latest report about the host sandbox as the settings make it.
func (p *program) hostReport(ctx context.Context, a *assembly, s settings) (latest selftest.Report, counts bool) {
	policy, build, now, base := "", "", time.Now(), s.Config.BaseFor(sandbox.Host)
	for _, r := range selftest.Load(selftestRecords(s)) {
		if r.Backend != sandbox.Host || r.Variant != string(base.Mode) || counts && r.Started.Before(latest.Started) {
			continue
		}
		if r.Started.After(now) { // by a clock that was wrong; nobody knows when that was
			continue
		}
		if policy == "" {
			var err error
			if policy, err = policyNow(ctx, a, sandbox.Host, base); err != nil {
				return latest, false
			}
			build = readBuild()
		}
		if _, stale := selftest.Stale(r, selftest.ThisMachine(), build, policy); !stale {
			latest, counts = r, true
		}
	}
	return latest, counts
}

// afterTest is what a refused resolution comes to if the self-test that "brig run"
// would make first sees everything hold, and the sentence that says so. Where none
// would be made the resolution is as it was.
func (p *program) afterTest(ctx context.Context, a *assembly, s settings, r orchestrator.Resolution) (orchestrator.Resolution, string) {
	if r.Err == nil || !unverified(r.Err) {
		return r, ""
	}
	if _, counts := p.hostReport(ctx, a, s); counts {
		return r, ""
	}
	text := "brig run tests the host sandbox first (about ten seconds): " + r.Err.Reason
	r.Refusals = slices.DeleteFunc(slices.Clone(r.Refusals), func(f orchestrator.Refusal) bool { return f.Code == orchestrator.CodeUnverified })
	r.Err, r.Resolved, r.Mode, r.Degraded = nil, sandbox.Host, sandbox.ModeRequire, len(r.Refusals) > 0
	base := s.Config.BaseFor(sandbox.Host)
	if layers, err := a.host.Capabilities(ctx, base); err == nil && base.Network == sandbox.NetworkAllow {
		for _, l := range layers {
			if (l.ID == sandbox.NetOutbound || l.ID == sandbox.NetLoopback) && l.State != sandbox.Enforced {
				r.Opened = append(r.Opened, l)
			}
		}
	}
	return r, text
}

// unverified tells whether nothing but the self-test stood in the way.
func unverified(err error) bool {
	var refused *orchestrator.RefusedError
	return errors.As(err, &refused) && refused.Code == orchestrator.CodeUnverified
}

// verify tests the host sandbox after a refusal for want of a self-test, unless one
// that counts has said what it saw: then the refusal stands. It says whether it tested.
func (p *program) verify(ctx context.Context, a *assembly, s settings, quiet bool, refused error) (tested bool, err error) {
	if _, counts := p.hostReport(ctx, a, s); counts {
		return false, refused
	}
	if !quiet {
		p.tui.note("host.sandbox is require, and no self-test that counts was seen on this machine: testing the host sandbox now, about ten seconds")
	}
	if err := a.orchestrator.Reconfigure(forTrials(s).Config); err != nil {
		return false, err
	}
	subject, err := p.subject(ctx, a, sandbox.Host, s.Config.BaseFor(sandbox.Host))
	if err != nil {
		return false, err
	}
	t := &trial{p: p, a: a, settings: s, quiet: quiet}
	r, err := t.run(ctx, subject)
	if err == nil && !quiet {
		p.tui.note("self-test of the host sandbox: %s", escapeLine(r.Line))
	}
	return err == nil, err
}
