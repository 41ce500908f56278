package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"brig/orchestrator"
	"brig/orchestrator/sandbox"
	"brig/selftest"
)

// selftestOptions are the flags of "brig selftest".
type selftestOptions struct {
	backend  choice
	report   string
	only     []string
	json     bool
	evidence bool
	list     bool
	last     bool

	overwrite bool
}

// allBackends is what --backend takes beside the backends.
const allBackends = "all"

func (p *program) selftestCommand() *cobra.Command {
	o := selftestOptions{backend: newBackendFlag()}
	o.backend.allowed = append(o.backend.allowed, allBackends)
	c := &cobra.Command{
		Use:   "selftest",
		Short: "Try on this machine, now, what contains code",
		Long: `Really attempt what code must not be able to do, in sessions that are started as
every session is, and look from outside at what became of it. The same attempts
run with nothing around them too: what fails there as well proves nothing. All
of it goes against decoys of brig's own, and nothing of it stays.

Without --backend it tests what a session would get now; with "all", both
backends, and every runtime that the engine offers. A layer is blocked, allowed,
inconclusive or unsupported, and is held against what its posture says.

Exit status 0 if all that is promised holds, 3 if something does not, 4 if that
could not be told, 125 if nothing could be tested.`,
		Example: `  brig selftest
  brig selftest --backend all --report selftest.md
  brig selftest --probe net-outbound --probe files-read-home --evidence
  brig selftest --last`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return p.selftest(c.Context(), o) },
	}
	f := c.Flags()
	f.Var(once("--backend", &o.backend), "backend", "test this `BACKEND`: docker, host or all")
	o.backend.complete(c)
	f.Var(once("--report", &word{value: &o.report, flag: "report"}), "report", "write a report for a reviewer, in Markdown, to `FILE`, or with - to standard output instead of the table")
	f.BoolVar(&o.overwrite, "overwrite", false, "let --report replace a file that is there already")
	f.StringArrayVar(&o.only, "probe", nil, "try only this probe or layer, `ID`; may be repeated")
	f.BoolVar(&o.evidence, "evidence", false, "show every attempt with what was seen of it")
	f.BoolVar(&o.list, "list", false, "list the probes and try nothing")
	f.BoolVar(&o.last, "last", false, "show what was seen last time, and whether it still counts")
	f.BoolVar(&o.json, "json", false, "print one JSON object with everything, and nothing else")
	return c
}

// selftestAnswer is the one object of "brig selftest --json".
type selftestAnswer struct {
	Holds    selftest.Holds    `json:"holds,omitempty"` // the worst of the reports
	ExitCode exitCode          `json:"exit_code"`
	Reports  []selftest.Report `json:"reports"`
	Absent   []absent          `json:"absent,omitempty"`
	// Error is why the report that was asked for could not be written. All else stands.
	Error *failure `json:"error,omitempty"`
}

// absent is what could not be tested, because it is not there.
type absent struct {
	Backend sandbox.Kind `json:"backend"`
	Variant string       `json:"variant,omitempty"`
	Code    string       `json:"code"`
	Reason  string       `json:"reason"`
	Remedy  string       `json:"remedy,omitempty"`

	err error
}

func (a absent) name() string { return subjectName(a.Backend, a.Variant) }

func (a absent) words() string { return fmt.Sprintf("%s was not tested: %s", a.name(), a.Reason) }

// subjectName is a backend with what tells it from others of its kind.
func subjectName(kind sandbox.Kind, variant string) string {
	if variant == "" {
		return string(kind)
	}
	if kind == sandbox.Host && sandbox.Mode(variant) == sandbox.ModeOff {
		variant += " (not sandboxed)"
	}
	return fmt.Sprintf("%s, %s", kind, variant)
}

func (p *program) selftest(parent context.Context, o selftestOptions) (err error) {
	if err := o.together(); err != nil {
		return err
	}
	if err := checkProbes(o.only); err != nil {
		return err
	}
	if o.list {
		return p.listProbes(o)
	}
	if o.json && o.report == "-" {
		return usage("leave one of the two out", "--json and --report - both want standard output")
	}
	if err := o.checkReport(); err != nil {
		return err
	}
	settings, err := p.loadSettings()
	if err != nil {
		return err
	}
	if o.last {
		return p.lastSelftest(parent, o)
	}
	sig := watchSignals(parent)
	defer sig.close()
	defer func() { err = sig.rename(err) }()
	if handed, err := p.selftestThere(sig.ctx, o, settings); handed || err != nil {
		return err
	}
	a, err := p.assemble(forTrials(settings), assembleOptions{silent: o.json})
	if err != nil {
		return err
	}
	defer func() { err = p.closeAfter(err, a.close(parent)) }()

	subjects, missing, err := p.subjects(sig.ctx, a, settings, o.backend.value)
	if err != nil {
		return err
	}
	t := &trial{p: p, a: a, settings: settings, quiet: o.json, only: o.only}
	answer := selftestAnswer{Reports: []selftest.Report{}, Absent: missing}
	for _, s := range subjects {
		if !o.json && !p.tui.stderr.terminal {
			p.tui.note("testing %s%s", escapeLine(subjectName(s.Kind, s.Variant)), aboutHowLong(o.only))
		}
		r, err := t.run(sig.ctx, s)
		if err != nil && (sig.ctx.Err() != nil || o.backend.value != allBackends) {
			return err
		}
		if err != nil {
			answer.Absent = append(answer.Absent, absentBecause(s.Kind, s.Variant, err))
			continue
		}
		p.addSelftest(o, &answer, r)
	}
	return p.answerSelftest(o, answer)
}

// addSelftest takes a report, and shows it at once.
func (p *program) addSelftest(o selftestOptions, answer *selftestAnswer, r selftest.Report) {
	answer.Reports = append(answer.Reports, r)
	if o.json || o.report == "-" {
		return
	}
	if len(answer.Reports) > 1 {
		fmt.Fprintln(p.tui.stdout)
	}
	p.printSelftest(r, o.evidence)
}

// answerSelftest says how it ended, and writes the report that was asked for.
func (p *program) answerSelftest(o selftestOptions, answer selftestAnswer) error {
	if len(answer.Reports) == 0 {
		return nothingTested(answer.Absent)
	}
	answer.Holds = worst(answer.Reports)
	answer.ExitCode = exitOfSelftest(answer.Holds)
	unwritten := p.writeReport(o, answer.Reports, answer.Absent)
	if unwritten != nil {
		answer.Error, answer.ExitCode = explain(unwritten), exitFailed
	}
	if o.json {
		if err := p.printJSON(answer); err != nil {
			return err
		}
		return ended(answer.ExitCode)
	}
	for _, r := range answer.Reports {
		if again := repeatOf(r); again != "" {
			p.tui.hint("if the machine is busy, repeat: " + again)
		}
	}
	p.tellMissing(o, answer.Absent)
	if unwritten != nil {
		return unwritten
	}
	return ended(answer.ExitCode)
}

// nothingTested is the first reason why; there always is one, or a subject.
func nothingTested(missing []absent) error {
	if len(missing) == 0 {
		panic("BUG: there was neither a subject nor a reason why not")
	}
	reasons := make([]string, len(missing))
	for i, m := range missing {
		reasons[i] = m.name() + ": " + m.Reason
	}
	return &failure{
		Code: missing[0].Code, Message: "nothing could be tested: " + strings.Join(reasons, "; "),
		Remedy: cmp.Or(missing[0].Remedy, askDoctor), Exit: exitFailed, err: missing[0].err,
	}
}

// worst is the outcome of several reports.
func worst(reports []selftest.Report) selftest.Holds {
	order := []selftest.Holds{selftest.Held, selftest.CouldNotTell, selftest.Weaker}
	at := 0
	for _, r := range reports {
		at = max(at, slices.Index(order, r.Holds))
	}
	return order[at]
}

// together refuses flags of which one would be passed over.
func (o selftestOptions) together() error {
	for _, c := range []struct {
		both      bool
		one, with string
	}{
		{o.list && o.last, "--list", "--last"},
		{o.list && o.report != "", "--list", "--report"},
		{o.list && o.overwrite, "--list", "--overwrite"},
		{o.list && o.backend.value != "", "--list", "--backend"},
		{o.last && len(o.only) > 0, "--last", "--probe"},
	} {
		if c.both {
			return usage("leave one of the two out", "%s and %s do not go together", c.one, c.with)
		}
	}
	return nil
}

// checkProbes answers what --probe does not know with what is nearest.
func checkProbes(only []string) error {
	var known []string
	for _, id := range sandbox.Layers() {
		known = append(known, string(id))
	}
	for _, pr := range selftest.Catalogue() {
		known = append(known, pr.ID)
	}
	for _, id := range only {
		if slices.Contains(known, id) {
			continue
		}
		hint := "brig selftest --list"
		if parts := strings.FieldsFunc(id, func(r rune) bool { return r == ',' || r == ' ' }); len(parts) > 1 {
			hint = "for several, repeat it: brig selftest"
			for _, part := range parts {
				hint += " --probe " + quote(part)
			}
		} else if near := nearest(strings.ToLower(id), known); near != "" {
			hint = "did you mean: brig selftest --probe " + near
		}
		return usage(hint, "%q is neither a probe nor a layer", id)
	}
	return nil
}

// absentBecause is why something could not be tested.
func absentBecause(kind sandbox.Kind, variant string, err error) absent {
	f := explain(err)
	return absent{Backend: kind, Variant: variant, Code: f.Code, Reason: redact(f.Message), Remedy: redact(f.Remedy), err: err}
}

// refusedForWant tells whether the resolution passed the host sandbox over only
// because of what a self-test does not need: it is asked whether things hold.
func refusedForWant(r orchestrator.Resolution) bool {
	return slices.ContainsFunc(r.Refusals, func(f orchestrator.Refusal) bool {
		return f.Kind == sandbox.Host && slices.Contains([]string{
			orchestrator.CodeUnverified, orchestrator.CodeIncomplete, orchestrator.CodeUnacknowledged,
		}, f.Code)
	})
}

var errNoSubject = errors.New("there is no such backend here")
