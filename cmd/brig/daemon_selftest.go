package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"brig/orchestrator/api"
	"brig/orchestrator/sandbox"
	"brig/selftest"
)

// selftest is what "brig selftest" does, in a brig of its own beside this one, so
// that neither sessions nor settings of this one have a part in it.
func (d *daemon) selftest(ctx context.Context, r api.SelftestRequest, progress func(api.SelftestProgress)) (answer api.Selftest, err error) {
	if err := checkProbes(r.Only); err != nil {
		f := explain(err)
		return answer, api.NewProblem(api.CodeInvalid, f.Message, f.Remedy)
	}
	s := *d.settings.Load()
	a, err := d.p.assemble(forTrials(s), assembleOptions{silent: true})
	if err != nil {
		return answer, err
	}
	defer func() { err = errors.Join(err, a.close(ctx)) }()
	subjects, missing, err := d.p.subjects(ctx, a, s, r.Backend)
	if err != nil {
		return answer, err
	}
	if len(subjects) != 1 {
		return answer, nothingTested(missing)
	}
	t := &trial{p: d.p, a: a, settings: s, quiet: true, only: r.Only, progress: func(e selftest.Progress) {
		p := api.SelftestProgress{Done: e.Done, Total: e.Total}
		if e.Result != nil {
			p.Probe, p.Verdict = e.Result.Probe, string(e.Result.Verdict)
		}
		progress(p)
	}}
	report, err := t.run(ctx, subjects[0])
	if err != nil {
		return answer, err
	}
	text, err := json.Marshal(report)
	if err != nil {
		return answer, fmt.Errorf("write the report: %w", err)
	}
	now := time.Now().UTC()
	return api.Selftest{
		Backend: string(report.Backend), State: "ended", Started: report.Started.UTC(), Ended: &now,
		Holds: string(report.Holds), Sentence: cmp.Or(report.Line, string(report.Holds)), Report: text,
	}, nil
}

// verdicts are those of the latest self-test of a backend that counts; nil: none does.
func (d *daemon) verdicts(kind sandbox.Kind) map[sandbox.LayerID]sandbox.Verdict {
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	s := *d.settings.Load()
	if kind == sandbox.Host {
		if r, counts := d.p.hostReport(ctx, d.a, s); counts {
			return selftest.Verdicts(r)
		}
		return nil
	}
	var latest *remembered
	for _, r := range d.p.remembered(ctx, d.a, s) {
		if r.Backend == kind && r.Stale == "" && (latest == nil || latest.Started.Before(r.Started)) {
			latest = &r
		}
	}
	if latest == nil {
		return nil
	}
	return selftest.Verdicts(latest.Report)
}
