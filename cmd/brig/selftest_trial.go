package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"brig/orchestrator"
	"brig/orchestrator/sandbox"
	"brig/selftest"
)

// trial runs self-tests and keeps what they saw.
type trial struct {
	p        *program
	a        *assembly
	settings settings
	only     []string
	quiet    bool                    // nothing is drawn
	progress func(selftest.Progress) // hears of it where nothing is drawn; nil: nobody
}

// run tests one subject. What was tried in part is not kept: it says too little.
func (t *trial) run(ctx context.Context, s selftest.Subject) (selftest.Report, error) {
	o := t.p.trialOptions(ctx, t.a, t.settings)
	o.Only = t.only
	drawing := &trialProgress{s: t.p.tui.stderr, name: subjectName(s.Kind, s.Variant)}
	if !t.quiet && t.p.tui.stderr.terminal {
		o.Progress = drawing.show
	}
	if t.quiet {
		o.Progress = t.progress
	}
	r, err := selftest.Run(ctx, s, o)
	t.p.tui.stderr.wipe()
	t.a.build.done(err)
	if err != nil {
		return r, err
	}
	if len(t.only) > 0 {
		return r, nil
	}
	if err := keepReport(t.settings, r); err != nil && !t.quiet {
		// What was seen stands all the same; it only will not be remembered.
		t.p.tui.warn(escapeLine(err.Error()))
		t.p.tui.hint("df -h " + quote(t.settings.Paths.State))
	}
	return r, nil
}

// announceTrial says that less is tested than was configured, as a run would.
func (p *program) announceTrial(r orchestrator.Resolution) {
	for _, refusal := range r.Refusals {
		p.tui.note("testing %s, which is what a session gets now: %s", r.Resolved, escapeLine(refusal.Reason))
	}
}

// aboutHowLong is for who sees nothing of the progress.
func aboutHowLong(only []string) string {
	if len(only) > 0 {
		return ""
	}
	return ", five to ten seconds"
}

// repeatOf is the command that tries again what a report could not tell.
func repeatOf(r selftest.Report) string {
	if r.Holds != selftest.CouldNotTell {
		return ""
	}
	again := "brig selftest --backend " + string(r.Backend)
	for _, l := range r.Layers {
		tried := slices.ContainsFunc(r.Probes, func(pr selftest.Result) bool { return pr.Layer == l.Layer.ID })
		if tried && l.Promised && l.Verdict == sandbox.Inconclusive {
			again += " --probe " + string(l.Layer.ID)
		}
	}
	return again
}

// trialProgress is one live line.
type trialProgress struct {
	s    *stream
	name string
}

func (d *trialProgress) show(e selftest.Progress) {
	text := e.Stage
	if r := e.Result; r != nil {
		text = fmt.Sprintf("%s %s", r.Probe, r.Verdict)
	}
	line := fmt.Sprintf("brig: testing %s  %d/%d  %s", d.name, e.Done, e.Total, escapeLine(text))
	d.s.wipe()
	io.WriteString(d.s.w, d.s.styled(styleDim, cut(line, d.s.width-1)))
	d.s.cursor.live, d.s.cursor.mid = true, true
}
