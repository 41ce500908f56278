package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"brig/hostfallback"
	"brig/images"
	"brig/orchestrator"
	"brig/orchestrator/config"
	"brig/orchestrator/sandbox"
	"brig/selftest"
)

// finding is one fact of "brig doctor".
type finding struct {
	Section string `json:"section"`
	Name    string `json:"name"`
	State   state  `json:"state"`
	Value   string `json:"value"`
	Remedy  string `json:"remedy,omitempty"`
	// Layer is what the finding is about, where it is one of containment.
	Layer *sandbox.Layer `json:"layer,omitempty"`
}

// state judges a finding.
type state string

const (
	stateOK      state = "ok"
	stateNote    state = "note"    // good to know, nothing to mend
	stateProblem state = "problem" // something is less than configured
)

// report collects findings in the order in which they are shown. Everything that
// goes into it passes through redact.
type report struct{ findings []finding }

func (r *report) add(section, name string, s state, remedy, format string, a ...any) {
	lines := slices.DeleteFunc(strings.Split(remedy, "\n"), func(line string) bool {
		return line == askDoctor || strings.HasPrefix(line, "for ") && strings.HasSuffix(line, ": "+askDoctor) // this is it
	})
	for i := range lines {
		lines[i] = strings.TrimSuffix(lines[i], ", then: "+askDoctor)
	}
	remedy = strings.Join(lines, "\n")
	r.findings = append(r.findings, finding{
		Section: section, Name: name, State: s, Value: redact(fmt.Sprintf(format, a...)), Remedy: redact(remedy),
	})
}

// blame adds everything that an error says, each part with its remedy.
func (r *report) blame(section, name string, s state, err error) {
	var settings *config.Error
	var refused *orchestrator.RefusedError
	switch {
	case errors.As(err, &settings):
		for _, p := range settings.Problems {
			remedy := p.Suggestion
			p.Suggestion = ""
			r.add(section, name, s, remedy, "%s", p)
		}
	case errors.As(err, &refused):
		r.add(section, name, s, strings.Join(remediesFor(refusalsOf(refused)), "\n"), "%s", refused.Reason)
	default:
		f := explain(err)
		r.add(section, name, s, f.Remedy, "%s", f.Message)
	}
}

func (r *report) problems() int {
	n := 0
	for _, f := range r.findings {
		if f.State == stateProblem {
			n++
		}
	}
	return n
}

// password is the secret part of a URL.
var password = regexp.MustCompile(`(://[^/\s:@]*):[^/\s@]*@`)

// redact hides passwords in what is meant to be pasted into a bug report.
func redact(s string) string { return password.ReplaceAllString(s, "$1:***@") }

func (p *program) doctorCommand() *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:   "doctor",
		Short: "What was found on this machine, and what to do about it",
		Long: `Look at everything brig depends on: its settings and directories, the container
engine, its runtime and its images, Python and the sandbox of this system, the
life of sessions. What is wrong ends with the command to type. What a killed brig
has left is removed. Passwords are hidden, so that the output can be shown.

Exit status 0 if all is well, 1 if there is a problem.`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return p.doctor(c.Context(), asJSON) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func (p *program) doctor(parent context.Context, asJSON bool) error {
	ctx, cancel := context.WithTimeout(parent, lookTimeout)
	defer cancel()
	r := &report{}
	p.examine(ctx, r)
	if asJSON {
		if err := p.printJSON(map[string]any{"findings": r.findings, "problems": r.problems()}); err != nil {
			return err
		}
	} else {
		p.printReport(r)
	}
	if r.problems() > 0 {
		return ended(exitFound)
	}
	return nil
}

// examine goes from what needs nothing to what needs everything and goes on
// where something is missing. What may have to wait for an engine that hangs is
// asked at the same time.
func (p *program) examine(ctx context.Context, r *report) {
	v := readVersion()
	r.add("brig", "version", stateOK, "", "%s", strings.Join(strings.Fields(v.Version+" "+v.Commit+" "+v.Platform), " "))
	r.add("brig", "runner", stateOK, "", "%.16s, protocol %d", v.Runner, v.Protocol)
	settings, err := p.loadSettings()
	if err != nil {
		r.blame("settings", "settings", stateProblem, err)
	} else {
		p.examineSettings(r, settings)
	}
	if settings.Paths != (config.Paths{}) {
		examineDirectories(r, settings.Paths)
	}
	if r.problems() > 0 {
		return // brig cannot start, and why is said
	}
	a, err := p.assemble(settings, assembleOptions{silent: true})
	if err != nil {
		r.blame("brig", "start", stateProblem, err)
		return
	}
	stays := p.examineBrig(ctx, r, settings)
	var engine, host, sessions, tests, result report
	var now orchestrator.Resolution
	var wg sync.WaitGroup
	wg.Go(func() { p.examineEngine(ctx, &engine, a, settings) })
	wg.Go(func() { examineBackend(ctx, &host, a.host, settings.Config.BaseFor(sandbox.Host)) })
	wg.Go(func() {
		if stays.decides() {
			now = stays.resolution
		} else if resolution, err := a.orchestrator.Resolve(ctx, ""); err != nil {
			result.blame("result", "backend", stateProblem, err)
		} else {
			now = resolution
		}
	})
	wg.Wait()
	examineSessions(ctx, &sessions, a, settings.Config) // now that it is known which backends answer
	if len(result.findings) == 0 {
		var first string
		if now, first = p.afterTest(ctx, a, settings, now); first != "" {
			result.add("result", "self-test", stateNote, "brig selftest --backend host", "%s", first)
		}
		examineResolution(&result, now)
	}
	p.examineSelftests(ctx, &tests, a, settings, now)
	for _, part := range []report{engine, host, sessions, tests, result} {
		r.findings = append(r.findings, part.findings...)
	}
	if err := a.close(ctx); err != nil {
		r.blame("brig", "end", stateProblem, err)
	}
}

// examineBackend tells about a backend; whether it is good enough is for the
// resolution to say. It returns whether the backend is usable.
func examineBackend(ctx context.Context, r *report, b sandbox.Backend, base sandbox.Base) bool {
	section := string(b.Kind())
	u := lookAt(ctx, b)
	if u.err != nil {
		r.blame(section, "usable", stateNote, u.err)
		return false
	}
	r.add(section, "usable", stateOK, "", "%s %s (%s)", u.Endpoint, u.Version, u.Source)
	for _, name := range slices.Sorted(maps.Keys(u.Details)) {
		s := stateOK
		if name == hostfallback.NotGranted {
			s = stateNote
		}
		r.add(section, name, s, "", "%s", u.Details[name])
	}
	for _, warning := range u.Warnings {
		if b.Kind() == sandbox.Host {
			r.add(section, "verified", stateNote, "brig selftest --backend host", "%s", warning)
			continue
		}
		r.add(section, "warning", stateNote, "docker info", "the engine says of itself: %s", warning)
	}
	if b.Kind() == sandbox.Host {
		s := stateOK
		if base.Mode == sandbox.ModeOff {
			s = stateNote
		}
		r.add(section, "mode", s, "", "%s", modeWords(base.Mode))
		r.add(section, "network", stateOK, "", "%s", base.Network)
	}
	layers, err := b.Capabilities(ctx, base)
	if err != nil {
		r.blame(section, "layers", stateNote, err)
		return true
	}
	for _, l := range layers {
		s := stateOK
		if l.State != sandbox.Enforced {
			s = stateNote
		}
		r.add(section, string(l.ID), s, l.Remedy, "%s", layerWords(l))
		r.findings[len(r.findings)-1].Layer = &l
	}
	return true
}

func (p *program) examineEngine(ctx context.Context, r *report, a *assembly, s settings) {
	if !examineBackend(ctx, r, a.docker, s.Config.BaseFor(sandbox.Docker)) {
		return
	}
	e := p.lookAtEngine(ctx, a, s)
	if e.runtimeErr != nil {
		r.blame("docker", "runtime", stateProblem, e.runtimeErr)
	} else {
		r.add("docker", "runtime", stateOK, "", "%s: %s", e.Runtime, e.RuntimeWhy)
	}
	if e.imagesErr != nil {
		r.blame("docker", "images", stateProblem, e.imagesErr)
	}
	for _, s := range e.Images {
		kind := stateOK
		if s.Condition != images.Ready {
			kind = stateNote
		}
		r.add("docker", "image "+s.Name, kind, s.Remedy, "%s", strings.TrimSpace(string(s.Condition)+" "+cmp.Or(s.Reason, s.Tag)))
	}
}

// examineSessions tells how sessions live, and what earlier ones left behind.
func examineSessions(ctx context.Context, r *report, a *assembly, c config.Config) {
	s := sessionsOf(c)
	r.add("sessions", "warm", stateOK, "", "%s", s.warm())
	r.add("sessions", "kept", stateOK, "", "%s", s.kept())
	r.add("sessions", "idle", stateOK, "", "closed after %s without use", s.Idle)
	switch left := clearUp(ctx, a.orchestrator); {
	case left.Error != "":
		r.add("sessions", "left behind", stateProblem, "docker ps --all --filter label=dev.brig.owner", "%s", left)
	case left.Any():
		r.add("sessions", "left behind", stateNote, "", "%s", left)
	default:
		r.add("sessions", "left behind", stateOK, "", "nothing")
	}
}

// examineSelftests tells what was seen when containment was really tried. That it
// was not tried, too long ago, or for something else than would run now, is nothing
// that is wrong.
func (p *program) examineSelftests(ctx context.Context, r *report, a *assembly, s settings, now orchestrator.Resolution) {
	states := p.selftestStates(ctx, a, s, now)
	if len(states) == 0 {
		r.add("self-test", "last", stateNote, "brig selftest", "never run")
	}
	for _, t := range states {
		judged := stateOK
		switch {
		case !t.Current || t.Stale != "":
			judged = stateNote
		case now.Mode == sandbox.ModeOff:
			judged = stateNote // that it holds nothing is what was asked for
		case t.Holds == selftest.Weaker:
			judged = stateProblem
		case t.Holds == selftest.CouldNotTell:
			judged = stateNote
		}
		r.add("self-test", "last", judged, t.again(), "%s", t)
	}
}

// examineResolution turns everything that is less than configured into problems.
// What is as the user set it is said and is none.
func examineResolution(r *report, resolution orchestrator.Resolution) {
	name := string(resolution.Resolved)
	if resolution.Err != nil {
		name = "nothing"
	}
	remedy := strings.Join(remediesFor(resolution.Refusals), "\n")
	warnings := orchestrator.Warnings(resolution, sandbox.Posture{})
	if len(warnings) == 0 {
		r.add("result", "code runs in", stateOK, "", "%s, as configured", name)
		return
	}
	chosen := resolution.Err == nil && !resolution.Degraded &&
		(resolution.Mode == sandbox.ModeOff || len(resolution.Gaps) == 0 && len(resolution.Opened) > 0)
	if chosen {
		if resolution.Mode == sandbox.ModeOff {
			warnings = warnings[:1] // the rows of the host have the rest
		}
		r.add("result", "code runs in", stateNote, "", "%s, as configured; %s", name, strings.Join(warnings, "; "))
		return
	}
	r.add("result", "code runs in", stateProblem, remedy, "%s; %s", name, strings.Join(warnings, "; "))
}

func (p *program) printReport(r *report) {
	out, section := p.tui.stdout, ""
	for _, f := range r.findings {
		if f.Section != section {
			if section != "" {
				fmt.Fprintln(out)
			}
			section = f.Section
			fmt.Fprintln(out, section)
		}
		mark := map[state]string{stateOK: "  ok  ", stateNote: "  note", stateProblem: "  BAD "}[f.State]
		if f.State == stateProblem {
			mark = out.styled(styleWarning, mark)
		}
		value, more := f.Value, ""
		if l := f.Layer; l != nil && l.Mechanism != "" && l.State != sandbox.Enforced {
			value, more = redact(stateWords(*l)+": "+l.Mechanism), redact(l.Reason)
		}
		fmt.Fprintf(out, "%s  %-18s %s\n", mark, f.Name, escapeLine(value))
		if more != "" {
			fmt.Fprintf(out, "        %-18s %s\n", "", escapeLine(more))
		}
		if f.Remedy != "" {
			for _, line := range strings.Split(f.Remedy, "\n") {
				fmt.Fprintf(out, "        %-18s → %s\n", "", escapeLine(line))
			}
		}
	}
	if n := r.problems(); n > 0 {
		fmt.Fprintf(out, "\n%s\n", count(n, "problem"))
	}
}
