package selftest

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"brig/orchestrator/sandbox"
)

// tally is a result with what is needed to conclude from it.
type tally struct {
	probe     Probe
	result    Result
	row       sandbox.Layer // of the session's posture that it got through in
	lied      bool          // it got through where its session's posture says that it does not
	undecided bool          // an attempt left it open, or a control that broke: more than that the machine refuses it to everybody
}

// weigh makes a probe's result of its attempts. Postures are those of the sessions
// that the attempts were made in, in the same order.
func weigh(p Probe, t tried, postures []sandbox.Posture, here platform) tally {
	r := tally{probe: p, result: Result{Probe: p.ID, Layer: p.Layer, Severity: p.Severity, Control: t.control, Verdict: sandbox.NotSupported}}
	if reason := p.elsewhere(here); reason != "" {
		r.result.Reason = reason
		return r
	}
	if len(t.attempts) == 0 {
		r.result.Verdict, r.result.Reason, r.undecided = sandbox.Inconclusive, "it was not attempted", true
		return r
	}
	for i, a := range t.attempts {
		v, reason, by := judge(p, a.Outcome, t.control)
		row := postures[i].Layer(p.Layer)
		if v == sandbox.Allowed {
			r.row = row
			switch {
			case row.State == sandbox.Unsupported:
				v, reason = sandbox.NotSupported, row.Reason
			case told(p, row):
				r.result.Expected = true
			default:
				r.lied = true
			}
		}
		r.undecided = r.undecided || v == sandbox.Inconclusive && (a.Outcome.undecided(p) || t.control.broken())
		a.Verdict, a.Posture = v, postures[i].Digest()
		r.result.Attempts = append(r.result.Attempts, a)
		if before := r.result.Verdict; i == 0 || worst(before, v) == v && before != v {
			r.result.Verdict, r.result.Reason, r.result.By = v, reason, by
		}
	}
	if r.lied {
		r.result.Expected = false
	}
	r.result.Unproven = r.result.Verdict == sandbox.Inconclusive && !r.undecided
	return r
}

// told: the posture says of itself that this operation is open.
func told(p Probe, row sandbox.Layer) bool {
	switch row.State {
	case sandbox.Off, sandbox.Unsupported:
		return true
	case sandbox.Partial:
		return slices.ContainsFunc(p.Gaps, func(pattern string) bool {
			ok, err := path.Match(pattern, row.Code)
			return err == nil && ok
		})
	}
	return false
}

// conclude compares what was seen with what the posture promises.
func conclude(posture sandbox.Posture, all []tally) (layers []LayerResult, holds Holds, line string, notes []string) {
	var weaker, open []string
	for _, id := range sandbox.Layers() {
		l := concludeLayer(posture.Layer(id), all)
		l.Promised = slices.Contains(posture.Promised, id)
		layers = append(layers, l)
		state := l.Layer.State
		switch {
		case l.Lied:
			weaker = append(weaker, fmt.Sprintf("%s is said to be %s, and %s", id, state, l.Reason))
		case l.Promised && state != sandbox.Enforced:
			weaker = append(weaker, fmt.Sprintf("%s is %s%s", id, state, because(l.Layer.Reason)))
		case l.Promised && l.Verdict == sandbox.Inconclusive:
			open = append(open, fmt.Sprintf("%s%s", id, because(l.Reason)))
		case l.Verdict == sandbox.Allowed:
			notes = append(notes, fmt.Sprintf("%s is %s and not promised: %s", id, state, l.Reason))
		case l.Verdict == sandbox.Inconclusive:
			notes = append(notes, fmt.Sprintf("%s could not be decided: %s", id, l.Reason))
		}
	}
	switch {
	case len(weaker) > 0:
		return layers, Weaker, "weaker than promised: " + strings.Join(weaker, "; "), notes
	case len(open) > 0:
		return layers, CouldNotTell, "could not tell: " + strings.Join(open, "; "), notes
	}
	return layers, Held, "contained as promised", notes
}

const noProbe = "no probe was run"

func concludeLayer(row sandbox.Layer, all []tally) LayerResult {
	l := LayerResult{Layer: row, Verdict: sandbox.NotSupported}
	var through, spoiled, unproven []tally
	blocked, probes := 0, 0
	for _, t := range all {
		if t.probe.Layer != row.ID {
			continue
		}
		probes++
		l.Lied = l.Lied || t.lied
		switch t.result.Verdict {
		case sandbox.Allowed:
			through = append(through, t)
		case sandbox.Blocked:
			blocked++
		case sandbox.Inconclusive:
			if t.undecided {
				spoiled = append(spoiled, t)
			} else {
				unproven = append(unproven, t)
			}
		}
	}
	switch {
	case probes == 0:
		l.Verdict, l.Reason = sandbox.Inconclusive, noProbe
	case len(through) > 0:
		slices.SortStableFunc(through, func(a, b tally) int { return cmp.Compare(rank(b), rank(a)) })
		l.Verdict, l.Reason = sandbox.Allowed, "got through: "+names(through)
		if first := through[0]; !first.lied && first.row.State != row.State {
			l.Reason += fmt.Sprintf(", in a session with small limits, whose posture says %s%s", first.row.State, because(first.row.Reason))
		}
	case len(spoiled) > 0:
		l.Verdict, l.Reason = sandbox.Inconclusive, names(spoiled)+" undecided: "+spoiled[0].result.Reason
	case blocked > 0:
		l.Verdict = sandbox.Blocked
		if len(unproven) > 0 {
			l.Reason = "not decided, because the control failed as well: " + names(unproven)
		}
	case len(unproven) > 0:
		l.Verdict, l.Reason = sandbox.Inconclusive, unproven[0].result.Reason
	default:
		l.Reason = row.Reason
	}
	return l
}

// rank puts what the posture does not tell of first.
func rank(t tally) int {
	if t.lied {
		return 1
	}
	return 0
}

// names lists at most three probes.
func names(all []tally) string {
	const most = 3
	var out []string
	for _, t := range all[:min(most, len(all))] {
		out = append(out, t.probe.ID)
	}
	text := strings.Join(out, ", ")
	if more := len(all) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
