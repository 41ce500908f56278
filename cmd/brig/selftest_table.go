package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"brig/orchestrator/sandbox"
	"brig/selftest"
)

// tableWidth is how wide the table is where no terminal says otherwise.
const tableWidth = 100

// printSelftest shows one report: a row for each layer, then what got through or
// could not be told, and in the end the one line.
func (p *program) printSelftest(r selftest.Report, evidence bool) {
	out := p.tui.stdout
	identity := cmp.Or(r.Posture.Identity, "nothing was started")
	p.wrapped(subjectName(r.Backend, r.Variant)+"  ", "  ", escapeLine(fmt.Sprintf("(%s, posture %.8s)", identity, r.Posture.Digest())))
	fmt.Fprintln(out)
	fmt.Fprintf(out, "  %-19s  %-11s  %s\n", "layer", "posture", "seen")
	for _, l := range r.Layers {
		tried := slices.ContainsFunc(r.Probes, func(pr selftest.Result) bool { return pr.Layer == l.Layer.ID })
		if tried || len(r.Probes) == 0 {
			p.printVerdict(l)
		}
	}
	p.wrapped("  * promised: ", "    ", "it has to be blocked; any other layer must only not be worse than its posture says")
	p.printOpen(r)
	if evidence {
		p.printEvidence(r)
	}
	for _, note := range r.Notes {
		if about, _, _ := strings.Cut(note, " "); slices.Contains(sandbox.Layers(), sandbox.LayerID(about)) {
			continue // its row says so
		}
		p.wrapped("  note: ", "        ", escapeLine(note))
	}
	fmt.Fprintln(out)
	tried := count(len(r.Probes), "probe")
	if all := len(selftest.Catalogue()); len(r.Probes) < all {
		tried = fmt.Sprintf("only %d of %d probes", len(r.Probes), all)
	}
	name, counts := subjectName(r.Backend, r.Variant)+": ", fmt.Sprintf("(%s, %.1f s)", tried, r.Took.Seconds())
	if r.Holds != selftest.Held {
		name = out.styled(styleWarning, name)
	}
	p.wrapped(name, "  ", escapeLine(r.Line)+undecided(r)+" "+counts)
}

// undecided ends the line of a report that holds with the layers that nobody promised
// and that are said to hold in part at least, of which it could not be told.
func undecided(r selftest.Report) string {
	var open []string
	for _, l := range r.Layers {
		tried := slices.ContainsFunc(r.Probes, func(pr selftest.Result) bool { return pr.Layer == l.Layer.ID })
		stated := l.Layer.State == sandbox.Enforced || l.Layer.State == sandbox.Partial
		if r.Holds == selftest.Held && tried && stated && !l.Promised && l.Verdict == sandbox.Inconclusive {
			open = append(open, string(l.Layer.ID))
		}
	}
	if len(open) == 0 {
		return ""
	}
	return "; not decided, not promised: " + strings.Join(open, ", ")
}

// printVerdict is the row of one layer.
func (p *program) printVerdict(l selftest.LayerResult) {
	out := p.tui.stdout
	verdict := fmt.Sprintf("%-12s", l.Verdict)
	switch {
	case l.Verdict == sandbox.Allowed && (l.Promised || l.Lied):
		verdict = out.styled(styleError, verdict)
	case l.Verdict == sandbox.Allowed, l.Verdict == sandbox.Inconclusive:
		verdict = out.styled(styleWarning, verdict)
	}
	reason := l.Reason
	if l.Lied {
		said := "the posture does not tell of it"
		if l.Layer.State == sandbox.Enforced {
			said = "the posture says that it is enforced"
		}
		reason = strings.TrimSuffix(said+"; "+reason, "; ")
	}
	id := string(l.Layer.ID)
	if l.Promised {
		id += " *"
	}
	row := fmt.Sprintf("  %-19s  %-11s  %s", id, l.Layer.State, verdict)
	if reason == "" {
		fmt.Fprintln(out, strings.TrimRight(row, " "))
		return
	}
	p.wrapped(row+"  ", strings.Repeat(" ", 2+19+2+11+2+12+2), escapeLine(reason))
}

// printOpen lists what got through without being told, with what helps, and what
// could not be told. Those where the control failed as well are only counted: on a
// machine that forbids much to everybody they would bury the rest.
func (p *program) printOpen(r selftest.Report) {
	out := p.tui.stdout
	forbidden, alone := 0, 0
	first := true
	head := func(begin, rest, text string) {
		if first {
			fmt.Fprintln(out)
			first = false
		}
		p.wrapped(begin, rest, escapeLine(text))
	}
	for _, probe := range r.Probes {
		begin := fmt.Sprintf("  %s  %s  ", probe.Probe, probe.Verdict)
		switch {
		case probe.Verdict == sandbox.Allowed && !probe.Expected:
			head(begin, "    ", probe.Reason)
			if fix := fixOf(probe.Probe); fix != "" {
				head("    → ", "      ", fix)
			}
		case probe.Unproven && probe.Probe == busyProbe:
			head("  ", "    ", probe.Probe+" not decided: the machine was too busy to tell; again: brig selftest --probe "+probe.Probe+" --backend "+string(r.Backend))
		case probe.Unproven && !probe.Control.Ran:
			alone++
		case probe.Unproven && !probe.Control.TimedOut:
			forbidden++
		case probe.Verdict == sandbox.Inconclusive:
			head(begin, "    ", probe.Reason)
		}
	}
	for _, c := range []struct {
		n   int
		why string
	}{
		{forbidden, "because the machine itself forbids the same to everybody here"},
		{alone, "because the same could not be tried with nothing around it"},
	} {
		if c.n > 0 {
			head("  ", "    ", count(c.n, "probe")+" not decided, "+c.why+"; see with --evidence")
		}
	}
}

// busyProbe is about a share of the processors: its control fails only where others
// take them, or where there is less than would be shared.
const busyProbe = "limit-cpu"

func fixOf(id string) string {
	all := selftest.Catalogue()
	if i := slices.IndexFunc(all, func(p selftest.Probe) bool { return p.ID == id }); i >= 0 {
		return all[i].Fix
	}
	return ""
}

// printEvidence shows every probe with its control and its attempts.
func (p *program) printEvidence(r selftest.Report) {
	out := p.tui.stdout
	for _, probe := range r.Probes {
		said := cmp.Or(probe.By, probe.Reason)
		if probe.Verdict != sandbox.Blocked {
			said = cmp.Or(probe.Reason, probe.By)
		}
		fmt.Fprintf(out, "\n  %s  %s\n", probe.Probe, probe.Verdict)
		p.wrapped("    ", "    ", escapeLine(fmt.Sprintf("%s · %s: %s", probe.Layer, probe.Severity, said)))
		p.wrapped("    control  ", "             ", escapeLine(outcomeWords(probe.Control)))
		for _, a := range probe.Attempts {
			p.wrapped(fmt.Sprintf("    %-8s ", a.In), "             ", escapeLine(outcomeWords(a.Outcome)))
		}
	}
}

// outcomeWords is one attempt in a line.
func outcomeWords(o selftest.Outcome) string {
	var b strings.Builder
	switch {
	case !o.Ran:
		b.WriteString("did not run")
	case o.TimedOut:
		b.WriteString("reached its time limit")
	case o.OK:
		b.WriteString("succeeded")
	default:
		b.WriteString("failed")
		if o.Step != "" {
			b.WriteString(" at " + o.Step)
		}
		if o.Sign != "" {
			b.WriteString(" with " + o.Sign)
		}
	}
	switch o.Seen {
	case selftest.SeenYes:
		b.WriteString(", seen from outside")
	case selftest.SeenNo:
		b.WriteString(", nothing seen from outside")
	}
	if o.Detail != "" {
		b.WriteString(": " + o.Detail)
	}
	return b.String()
}

// wrapped writes text in lines of the terminal's width; rest begins all but the first.
func (p *program) wrapped(begin, rest, text string) {
	out := p.tui.stdout
	most := tableWidth
	if out.terminal {
		most = out.width
	}
	line, used := begin, visible(begin)
	start := true
	for _, w := range strings.Fields(text) {
		n := utf8.RuneCountInString(w)
		if !start && used+1+n > most {
			fmt.Fprintln(out, strings.TrimRight(line, " "))
			line, used, start = rest, utf8.RuneCountInString(rest), true
		}
		if !start {
			line, used = line+" ", used+1
		}
		line, used, start = line+w, used+n, false
	}
	fmt.Fprintln(out, strings.TrimRight(line, " "))
}

// visible counts the characters of a line that take room on a terminal.
func visible(s string) int {
	for _, style := range []string{styleDim, styleWarning, styleError, styleReset} {
		s = strings.ReplaceAll(s, style, "")
	}
	return utf8.RuneCountInString(s)
}
