package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"brig/orchestrator/api"
)

// sessionCommand holds the verbs about sessions of the brig that stays.
func (p *program) sessionCommand() *cobra.Command {
	c := group(&cobra.Command{
		Use:   "session",
		Short: "Sessions that stay: open, look at, reset, export, close",
		Long: `A session is one live Python interpreter with a workspace of its own, in the brig
that stays (brig up). Code runs in it with: brig run --session NAME`,
	})
	c.AddCommand(
		p.sessionNewCommand(), p.sessionListCommand(), p.sessionShowCommand(), p.sessionRenewCommand(), p.sessionResetCommand(),
		p.sessionInterruptCommand(), p.sessionExportCommand(), p.sessionTokenCommand(), p.sessionRmCommand(),
	)
	return c
}

// needs wants between least and most arguments; what names them for people.
func needs(least, most int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return usage(c.CommandPath()+" --help", "%s needs %s", c.CommandPath(), what)
		case most >= 0 && len(args) > most:
			return usage(c.CommandPath()+" --help", "unexpected argument %q: %s takes %s", args[most], c.CommandPath(), what)
		}
		for _, a := range args {
			if a == "" {
				return usage(c.CommandPath()+" --help", "an argument of %s is empty", c.CommandPath())
			}
		}
		return nil
	}
}

// lifetimeFlag is how long something lives; zero means that nothing was said.
type lifetimeFlag time.Duration

func (l *lifetimeFlag) String() string {
	if *l == 0 {
		return ""
	}
	return time.Duration(*l).String()
}
func (l *lifetimeFlag) Type() string { return "duration" }

func (l *lifetimeFlag) Set(s string) error {
	d, err := time.ParseDuration(s)
	if err != nil || d < time.Second || d > longestLifetime {
		return usage("write it as: --lifetime 2h", "%q is no lifetime: it has a unit, is at least one second and at most %g hours", s, longestLifetime.Hours())
	}
	*l = lifetimeFlag(d)
	return nil
}

// longestLifetime is that of a session, as the API has it: a year.
const longestLifetime = 365 * 24 * time.Hour

// checkName judges the name of a session before anything is done with it.
func checkName(name string) error {
	if api.ValidName(name) {
		return nil
	}
	return usage("call it, for example: analysis-1", "%q is no name of a session: it is %s", name, api.NameRule)
}

func (l lifetimeFlag) seconds() int64 { return int64(time.Duration(l) / time.Second) }

func (p *program) sessionNewCommand() *cobra.Command {
	backend, lifetime, asJSON, join := newBackendFlag(), lifetimeFlag(0), false, false
	c := &cobra.Command{
		Use:   "new [NAME]",
		Short: "Open a session, or find the one of that name",
		Long: `Open a session in the brig that stays and print its name. One of that name that you
opened before is named as it is; one that an agent opened only with --join. It ends when it is closed, when nobody has used
it for limits.idle, or after --lifetime.`,
		Example: `  brig session new analysis
  brig run --session analysis -c 'x = 6 * 7'
  brig run --session analysis -c 'print(x)'`,
		Args: needs(0, 1, "at most one NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			r := api.SessionRequest{Backend: backend.value, Timezone: p.timezone(), Locale: p.locale(), LifetimeSeconds: lifetime.seconds(), Join: join}
			if len(args) == 1 {
				if r.Name = args[0]; checkName(r.Name) != nil {
					return checkName(r.Name)
				}
			}
			return p.asks(c.Context(), func(ctx context.Context, b *api.Client) error { return p.sessionNew(ctx, b, r, asJSON) })
		},
	}
	c.Flags().Var(once("--backend", &backend), "backend", "in this `BACKEND` and nowhere else: docker or host")
	backend.complete(c)
	c.Flags().Var(once("--lifetime", &lifetime), "lifetime", "end it after this `TIME`, such as 2h, whatever it does")
	c.Flags().BoolVar(&join, "join", false, "take the session of that name also where an agent opened it, which then sees what you leave there")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func (p *program) sessionNew(ctx context.Context, b *api.Client, r api.SessionRequest, asJSON bool) error {
	mine, err := p.loadSettings()
	if err != nil {
		return err
	}
	if err := p.agrees(ctx, b, mine, ""); err != nil {
		return err
	}
	s, created, err := b.OpenSession(ctx, r)
	if err != nil {
		return asRefused(err)
	}
	if asJSON {
		return p.printJSON(struct {
			api.Session
			Opened bool `json:"opened"` // false: it was there
		}{s, created})
	}
	t := &there{}
	if err := t.learn(s); err != nil {
		return err
	}
	p.announce(t.resolution(), t.posture())
	if !created {
		p.tui.note("it was there already")
	}
	fmt.Fprintln(p.tui.stdout, escapeLine(cmp.Or(s.Name, s.ID)))
	return nil
}

func (p *program) sessionListCommand() *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use: "list", Short: "The sessions that are open", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return p.asks(c.Context(), func(ctx context.Context, b *api.Client) error { return p.sessionList(ctx, b, asJSON) })
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func allSessions(ctx context.Context, b api.Brig) ([]api.Session, error) {
	all, page := []api.Session{}, api.Page{Limit: 1000}
	for {
		list, err := b.Sessions(ctx, page)
		if err != nil {
			return nil, err
		}
		all = append(all, list.Sessions...)
		if page.Cursor = list.Next; page.Cursor == "" {
			return all, nil
		}
	}
}

func (p *program) sessionList(ctx context.Context, b *api.Client, asJSON bool) error {
	all, err := allSessions(ctx, b)
	if err != nil {
		return err
	}
	if asJSON {
		return p.printJSON(map[string]any{"sessions": all})
	}
	if len(all) == 0 {
		p.tui.note("no session is open; to open one: brig session new NAME")
		return nil
	}
	rows := [][]string{}
	for _, s := range all {
		row := []string{cmp.Or(s.Name, s.ID), sessionState(s.State), s.Stamp.Backend, s.Stamp.Containment, count(s.Runs, "run"), "used " + ago(s.Used, time.Now())}
		if !mine(s) {
			row = append(row, "opened by "+s.Creator)
		}
		rows = append(rows, row)
	}
	p.table(rows)
	return nil
}

// table prints rows with their columns under each other.
func (p *program) table(rows [][]string) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			row[i] = escapeLine(cell)
			widths[i] = max(widths[i], len([]rune(row[i])))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			fmt.Fprintf(&line, "%-*s  ", widths[i], cell)
		}
		fmt.Fprintln(p.tui.stdout, strings.TrimRight(line.String(), " "))
	}
}
