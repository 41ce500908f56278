package selftest

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"brig/orchestrator/sandbox"
)

// Markdown is the report for a reviewer: the line, every layer with what the posture
// says beside what was seen, and every probe with its evidence and its control. What
// came out of a session is escaped.
func (r Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Self-test of %s\n\n**%s**\n\n", cell(r.subject()), cell(r.Line))
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "| %s | %s |\n", name, cell(value))
		}
	}
	b.WriteString("| | |\n|---|---|\n")
	row("made", r.Started.Format(time.RFC3339))
	row("took", r.Took.Round(time.Millisecond).String())
	row("brig", r.Brig)
	row("machine", fmt.Sprintf("%s/%s, kernel %s, uid %d", r.Machine.OS, r.Machine.Arch, r.Machine.Kernel, r.Machine.UID))
	row("boot", r.Machine.BootID)
	row("runs the code", r.Posture.Identity)
	row("posture", r.Posture.Digest())
	row("policy", r.Policy)
	row("report", r.ID)
	b.WriteString("\nEach probe is one forbidden operation, really attempted in a session that was started as every session is, beside a control\n" +
		"run of the same attempt with nothing around it, and watched from outside. *blocked*: it failed as predicted, and the control\n" +
		"succeeded. *allowed*: it got through. *inconclusive*: the control failed as well, time ran out, or other evidence came.\n" +
		"*unsupported*: what would be tried does not exist here.\n\n## Layers\n\n" +
		"| layer | posture says | promised | self-test | reason |\n|---|---|---|---|---|\n")
	for _, l := range r.Layers {
		promised := ""
		if l.Promised {
			promised = "yes"
		}
		verdict := string(l.Verdict)
		if l.Lied {
			verdict = "**" + verdict + ", against the posture**"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", l.Layer.ID, l.Layer.State, promised, verdict, cell(l.Reason))
	}
	if len(r.Notes) > 0 {
		b.WriteString("\n## Notes\n\n")
		for _, n := range r.Notes {
			fmt.Fprintf(&b, "- %s\n", cell(n))
		}
	}
	b.WriteString("\n## Probes\n\n| probe | layer | severity | verdict | what stood in the way | inside | control |\n|---|---|---|---|---|---|---|\n")
	for _, p := range r.Probes {
		var inside []string
		for _, a := range p.Attempts {
			inside = append(inside, a.In+": "+a.Outcome.words())
		}
		verdict := string(p.Verdict)
		if p.Expected {
			verdict += ", as the posture says"
		}
		why := p.By
		if p.Verdict != sandbox.Blocked {
			why = p.Reason
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", p.Probe, p.Layer, p.Severity, verdict, cell(why), cell(strings.Join(inside, "; ")), cell(p.Control.words()))
	}
	b.WriteString("\n## What was attempted\n\n")
	all := Catalogue()
	for _, p := range r.Probes {
		i := slices.IndexFunc(all, func(c Probe) bool { return c.ID == p.Probe })
		if i < 0 {
			continue // of another version of brig
		}
		c := all[i]
		fmt.Fprintf(&b, "- **%s**: %s Attempted: %s. Success would be seen as: %s.", c.ID, cell(c.Claim), cell(c.Attempt), cell(c.Observed))
		if p.Verdict == sandbox.Allowed {
			fmt.Fprintf(&b, " To change it: %s.", cell(c.Fix))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func (r Report) subject() string {
	if r.Variant == "" {
		return string(r.Backend)
	}
	if r.Backend == sandbox.Host && sandbox.Mode(r.Variant) == sandbox.ModeOff {
		return fmt.Sprintf("%s (%s, not sandboxed)", r.Backend, r.Variant)
	}
	return fmt.Sprintf("%s (%s)", r.Backend, r.Variant)
}

// words is an outcome as it stands in a table.
func (o Outcome) words() string {
	switch {
	case o.Seen == SeenYes:
		return "succeeded, seen outside"
	case o.OK && o.Seen == SeenNone:
		return "succeeded"
	case o.TimedOut:
		return "ran out of time"
	}
	return o.sign()
}

// Cell is text as it may stand in Markdown that someone else puts together.
func Cell(s string) string { return cell(s) }

// cell makes text safe in a table of Markdown: no line, no column and no mark-up begins in it.
func cell(s string) string {
	s = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) || !unicode.IsPrint(c) {
			return ' '
		}
		return c
	}, s)
	return strings.NewReplacer("|", `\|`, "`", "'", "<", "&lt;", "*", `\*`, "[", `\[`, "_", `\_`).Replace(s)
}
