package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"brig/orchestrator/api"
	"brig/selftest"
)

// selftestThere lets the brig that stays make the self-test, so that its pages and
// whoever watches it know of it too. It is false and no error where none runs, where
// one runs with other settings, and for all backends, each runtime of which is tested
// by a brig of its own.
func (p *program) selftestThere(ctx context.Context, o selftestOptions, s settings) (handed bool, err error) {
	if o.backend.value == allBackends {
		return false, nil
	}
	c, err := p.daemon(ctx, s.Paths)
	if err != nil || c == nil {
		return false, err
	}
	defer c.Close()
	other, err := differs(ctx, c, s.Loaded, false)
	if err != nil {
		return false, err
	}
	if other != nil {
		if !o.json {
			p.tui.note("the brig that runs has another %s, so this self-test is not its; %s", other.key, p.readAnew(s.Paths))
		}
		return false, nil
	}
	t, err := c.Selftest(ctx, api.SelftestRequest{Backend: o.backend.value, Only: o.only})
	if err != nil {
		return false, asRefused(err)
	}
	if !o.json && !p.tui.stderr.terminal {
		p.tui.note("testing %s%s", escapeLine(t.Backend), aboutHowLong(o.only))
	}
	err = c.FollowSelftest(ctx, t.ID, 0, func(e api.Event) error { return p.drawProgress(o, t.Backend, e) })
	p.tui.stderr.wipe()
	if err != nil {
		return false, err
	}
	if t, err = c.FindSelftest(ctx, t.ID, api.FindOptions{}); err != nil {
		return false, err
	}
	if t.State != "ended" || len(t.Report) == 0 {
		return false, &failure{Code: "failed", Message: "the self-test came to no end: " + t.Problem, Remedy: askDoctor, Exit: exitFailed}
	}
	var r selftest.Report
	if err := json.Unmarshal(t.Report, &r); err != nil {
		return false, fmt.Errorf("read the report of the self-test: %w", err)
	}
	answer := selftestAnswer{Reports: []selftest.Report{}}
	p.addSelftest(o, &answer, r)
	return true, p.answerSelftest(o, answer)
}

// drawProgress shows on a terminal how far a self-test is.
func (p *program) drawProgress(o selftestOptions, name string, e api.Event) error {
	if o.json || !p.tui.stderr.terminal || e.Kind != api.EventProgress {
		return nil
	}
	var now api.SelftestProgress
	if err := json.Unmarshal(e.Data, &now); err != nil {
		return fmt.Errorf("read how far the self-test is: %w", err)
	}
	s := p.tui.stderr
	line := fmt.Sprintf("brig: testing %s  %d/%d  %s %s", name, now.Done, now.Total, now.Probe, now.Verdict)
	s.wipe()
	io.WriteString(s.w, s.styled(styleDim, cut(escapeLine(line), s.width-1)))
	s.cursor.live, s.cursor.mid = true, true
	return nil
}
