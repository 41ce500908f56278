package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"brig/orchestrator/api"
)

// sessionAnswer is the one object of "brig session show --json".
type sessionAnswer struct {
	api.Session
	Variables *api.VariableList `json:"interpreter_variables,omitempty"` // where asked for
	Latest    []api.Run         `json:"latest_runs"`
	Datasets  []api.Dataset     `json:"datasets"`
}

// latestRuns is how many runs "brig session show" names.
const latestRuns = 10

func (p *program) sessionShowCommand() *cobra.Command {
	variables, asJSON := false, false
	c := &cobra.Command{
		Use:   "show SESSION",
		Short: "What a session is, what contains it, and what ran in it",
		Args:  needs(1, 1, "one SESSION"), ValidArgsFunction: p.completeSession,
		RunE: func(c *cobra.Command, args []string) error {
			return p.asks(c.Context(), func(ctx context.Context, b *api.Client) error {
				return p.sessionShow(ctx, b, args[0], variables, asJSON)
			})
		},
	}
	c.Flags().BoolVar(&variables, "variables", false, "show the interpreter's variables too; it waits for a run that is under way")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func (p *program) sessionShow(ctx context.Context, b *api.Client, name string, variables, asJSON bool) error {
	s, err := b.Session(ctx, name)
	if err != nil {
		return err
	}
	a := sessionAnswer{Session: s}
	runs, err := b.Runs(ctx, s.ID, api.Page{Limit: latestRuns})
	if err != nil {
		return err
	}
	sets, err := b.Datasets(ctx, s.ID)
	if err != nil {
		return err
	}
	a.Latest, a.Datasets = append([]api.Run{}, runs.Runs...), append([]api.Dataset{}, sets.Datasets...)
	if variables {
		list, err := p.variablesOf(ctx, b, s.ID)
		if err != nil {
			return err
		}
		a.Variables = &list
	}
	if asJSON {
		return p.printJSON(a)
	}
	p.printSession(a)
	return nil
}

// variablesOf waits for the run that has the interpreter.
func (p *program) variablesOf(ctx context.Context, b *api.Client, session string) (api.VariableList, error) {
	for told := false; ; {
		list, err := b.Variables(ctx, session)
		if !errors.Is(err, &api.Problem{Code: api.CodeBusy}) {
			return list, err
		}
		if !told {
			told = true
			p.tui.note("waiting for the run that has the interpreter; to interrupt it: brig session interrupt %s", escapeLine(session))
		}
		select {
		case <-ctx.Done():
			return list, context.Cause(ctx)
		case <-time.After(500 * time.Millisecond):
		}
	}
}

func (p *program) printSession(a sessionAnswer) {
	out, s := p.tui.stdout, a.Session
	row := func(name, format string, args ...any) {
		fmt.Fprintf(out, "%-10s %s\n", name, escapeLine(fmt.Sprintf(format, args...)))
	}
	row("session", "%s (%s)", cmp.Or(s.Name, s.ID), s.ID)
	row("state", "%s, %s so far, %d waiting", sessionState(s.State), count(s.Runs, "run"), s.Queued)
	row("opened", "%s by %s, used %s", s.Created.Local().Format("2006-01-02 15:04:05"), s.Creator, ago(s.Used, time.Now()))
	if end := ends(s); end != "" {
		row("ends", "%s", end)
	}
	row("runs in", "%s", strings.TrimPrefix(s.Stamp.Line, "brig: "))
	row("limits", "memory %s, at most %d processes, %s cores, workspace %s", size(s.Limits.MemoryBytes), s.Limits.Processes,
		cores(s.Limits.MilliCPU), size(s.Limits.WorkspaceBytes))
	if u := s.Usage; u != nil {
		row("takes", "memory %s, processes: %d, %s of CPU, %s in %s", size(u.MemoryBytes), u.Processes,
			(time.Duration(u.CPUMs) * time.Millisecond).Round(time.Millisecond), size(u.WorkspaceBytes), count(u.WorkspaceFiles, "file"))
	}
	if s.Note != "" {
		row("note", "%s", s.Note)
	}
	for _, warning := range s.Warnings {
		row("warning", "%s", warning)
	}
	for _, d := range a.Datasets {
		row("dataset", "%s", datasetLine(d))
	}
	for _, r := range a.Latest {
		row("run", "%s", runLine(r))
	}
	if a.Variables == nil {
		return
	}
	for _, v := range a.Variables.Variables {
		row("variable", "%s  %s", v.Name, strings.TrimSpace(strings.Join([]string{v.Type, v.Shape, v.Repr}, " ")))
	}
	if n := a.Variables.Omitted; n > 0 {
		row("", "and %d more", n)
	}
}

// sessionState is a state for people: that an interpreter is gone is no loss of files.
func sessionState(state string) string {
	if state == "lost" {
		return "files kept, interpreter gone"
	}
	return state
}

// ends says when a session does, whichever comes first.
func ends(s api.Session) string {
	at := func(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }
	switch {
	case s.Expires != nil && s.IdleEnds != nil && s.IdleEnds.Before(*s.Expires):
		return fmt.Sprintf("at %s if nobody uses it, otherwise at %s", at(*s.IdleEnds), at(*s.Expires))
	case s.Expires != nil:
		return "at " + at(*s.Expires)
	case s.IdleEnds != nil:
		return fmt.Sprintf("at %s if nobody uses it", at(*s.IdleEnds))
	default:
		return ""
	}
}

func runLine(r api.Run) string {
	end := string(r.State)
	if r.State == api.RunEnded {
		end = r.Cause
	}
	line := fmt.Sprintf("%s  %s  %s", r.ID, r.Created.Local().Format("15:04:05"), end)
	if r.State == api.RunEnded {
		line += "  " + duration(r.ElapsedMs).Round(time.Millisecond).String()
	}
	return line
}

// cores writes thousandths of a core.
func cores(milli int) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(milli)/1000), ".0")
}

// completeSession completes a session's name as the first argument.
func (p *program) completeSession(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return p.sessionNames(c.Context()), cobra.ShellCompDirectiveNoFileComp
}

// sessionNames are those of the sessions that are open; none where nobody answers.
func (p *program) sessionNames(ctx context.Context) []string {
	if ctx == nil {
		ctx = context.Background()
	}
	b, err := p.needDaemon(ctx)
	if err != nil {
		return nil
	}
	defer b.Close()
	all, err := allSessions(ctx, b)
	if err != nil {
		return nil
	}
	var names []string
	for _, s := range all {
		names = append(names, cmp.Or(s.Name, s.ID))
	}
	return names
}

// completeSessionFlag completes --session.
func (p *program) completeSessionFlag(c *cobra.Command) {
	err := c.RegisterFlagCompletionFunc("session", func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return p.sessionNames(c.Context()), cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic("BUG: a flag that does not exist cannot be completed: " + err.Error())
	}
}
