package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"brig/orchestrator/api"
	"brig/orchestrator/workspace"
)

// change is a verb that does something to one session and says what became of it.
func (p *program) change(use, short, long string, do func(ctx context.Context, b *api.Client, session string) (any, string, error)) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use: use + " SESSION", Short: short, Long: long,
		Args: needs(1, 1, "one SESSION"), ValidArgsFunction: p.completeSession,
		RunE: func(c *cobra.Command, args []string) error {
			return p.asks(c.Context(), func(ctx context.Context, b *api.Client) error {
				facts, said, err := do(ctx, b, args[0])
				if err != nil {
					return asRefused(err)
				}
				if asJSON {
					return p.printJSON(facts)
				}
				p.tui.note("%s", escapeLine(said))
				return nil
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func (p *program) sessionResetCommand() *cobra.Command {
	now := false
	c := p.change("reset", "Start a session's interpreter afresh; files and datasets stay",
		"Start a session's interpreter afresh: its variables are gone, its files and datasets\nstay. It waits for the runs before it; with --now it interrupts the one that runs.",
		func(ctx context.Context, b *api.Client, session string) (any, string, error) {
			if s, err := b.Session(ctx, session); err == nil && s.Run != "" && !now {
				p.tui.note("waiting for run %s; to interrupt it: brig session reset --now %s", escapeLine(s.Run), escapeLine(quote(session)))
			}
			s, err := b.Reset(ctx, session, api.ResetOptions{Now: now})
			return s, "the interpreter of " + session + " is a fresh one; its files are as they were", err
		})
	c.Flags().BoolVar(&now, "now", false, "interrupt the run that has the interpreter instead of waiting for its end")
	return c
}

func (p *program) sessionInterruptCommand() *cobra.Command {
	return p.change("interrupt", "Interrupt the run that a session is busy with, as Ctrl-C does", "",
		func(ctx context.Context, b *api.Client, session string) (any, string, error) {
			err := b.Interrupt(ctx, session)
			return map[string]any{"session": session, "interrupted": true}, "interrupted", err
		})
}

func (p *program) sessionRenewCommand() *cobra.Command {
	lifetime := lifetimeFlag(0)
	c := p.change("renew", "Count as a use of a session, and move the end of its lifetime", "",
		func(ctx context.Context, b *api.Client, session string) (any, string, error) {
			s, err := b.RenewSession(ctx, session, api.Renewal{LifetimeSeconds: lifetime.seconds()})
			return s, "it ends " + cmp.Or(ends(s), "when it is closed"), err
		})
	c.Flags().Var(once("--lifetime", &lifetime), "lifetime", "end it after this `TIME` from now, such as 2h; without it that stays as it was")
	return c
}

// sessionTokenCommand is for handing one session to one program.
func (p *program) sessionTokenCommand() *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:   "token SESSION",
		Short: "Make a credential for this session and nothing else; it may close it, too",
		Long: `Make a bearer token for one session and print it, once: for a program that is to
see this session and nothing else of brig. It replaces an earlier one.`,
		Args: needs(1, 1, "one SESSION"), ValidArgsFunction: p.completeSession,
		RunE: func(c *cobra.Command, args []string) error {
			return p.asks(c.Context(), func(ctx context.Context, b *api.Client) error {
				t, err := b.SessionToken(ctx, args[0])
				if err != nil {
					return err
				}
				if asJSON {
					return p.printJSON(t)
				}
				fmt.Fprintln(p.tui.stdout, t.Token)
				return nil
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func (p *program) sessionRmCommand() *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:   "rm SESSION...",
		Short: "Close sessions; their files go with them",
		Long: `Close sessions: what runs in them is cancelled, and their workspaces are removed.
To keep what a session holds: brig session export, brig files get`,
		Args: needs(1, -1, "one SESSION or more"),
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			names := slices.DeleteFunc(p.sessionNames(c.Context()), func(n string) bool { return slices.Contains(args, n) })
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			return p.asks(c.Context(), func(ctx context.Context, b *api.Client) error {
				done, err := each(args, func(name string) error { return b.CloseSession(ctx, name) })
				if asJSON && err == nil {
					return p.printJSON(map[string]any{"closed": done})
				}
				if len(done) > 0 && !asJSON {
					p.tui.note("closed %s", escapeLine(named(done, len(args), "session")))
				}
				return err
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func (p *program) sessionExportCommand() *cobra.Command {
	format := choice{flag: "format", allowed: []string{string(api.Notebook), string(api.Script), string(api.Bundle)}}
	replace := false
	c := &cobra.Command{
		Use:   "export SESSION [FILE|-]",
		Short: "Write what really ran in a session: a notebook, a script, or both with its files",
		Long: `Write what really ran in a session: a notebook with its outputs (ipynb), a script
(py), or a zip file with both and the session's files beside them. Without a
format the name of FILE tells which; without FILE it goes to standard output.`,
		Example: `  brig session export analysis analysis.ipynb
  brig session export analysis everything.zip
  brig session export --format py analysis > analysis.py`,
		Args: needs(1, 2, "one SESSION and at most one FILE"), ValidArgsFunction: p.completeSession,
		RunE: func(c *cobra.Command, args []string) error {
			dest := "-"
			if len(args) == 2 {
				dest = args[1]
			}
			f, err := exportFormat(format.value, dest)
			if err != nil {
				return err
			}
			return p.asks(c.Context(), func(ctx context.Context, b *api.Client) error {
				open := func() (io.ReadCloser, error) { return b.Export(ctx, args[0], f) }
				return p.deliver("export."+string(f), open, dest, replace)
			})
		},
	}
	c.Flags().Var(once("--format", &format), "format", "as `FORMAT`: ipynb, py or zip")
	format.complete(c)
	c.Flags().BoolVar(&replace, "overwrite", false, "let it replace FILE")
	return c
}

// exportFormat is the one that was asked for, or that a file's name asks for.
func exportFormat(given, dest string) (api.ExportFormat, error) {
	if given != "" {
		return api.ExportFormat(given), nil
	}
	for _, f := range []api.ExportFormat{api.Notebook, api.Script, api.Bundle} {
		if ending := "." + string(f); len(dest) > len(ending) && dest[len(dest)-len(ending):] == ending {
			return f, nil
		}
	}
	if dest == "-" {
		return api.Notebook, nil
	}
	return "", usage("brig session export --format ipynb SESSION "+quote(dest), "the name %s does not tell the format: it ends neither in .ipynb nor in .py or .zip", dest)
}

// deliver writes content to a file, which it replaces only if asked to, or to
// standard output for "-".
func (p *program) deliver(name string, open func() (io.ReadCloser, error), dest string, replace bool) error {
	if dest != "-" {
		if err := save(name, open, dest, !replace); err != nil {
			return explainSave(dest, err)
		}
		p.tui.note("wrote %s", escapeLine(dest))
		return nil
	}
	if p.tui.stdout.terminal {
		return usage("name a file to write to", "this goes to a file or a pipe, not onto a terminal")
	}
	r, err := open()
	if err != nil {
		return err
	}
	defer r.Close()
	return p.pour(r)
}

// pour copies content to standard output as it is.
func (p *program) pour(r io.Reader) error {
	_, err := io.Copy(p.tui.stdout, r)
	if failed := p.tui.stdout.failed; failed != nil {
		return explainWrite(&writeError{failed})
	}
	return err
}

// explainSave says why a file could not be written here.
func explainSave(dest string, err error) error {
	var own *workspace.Error
	switch {
	case !asWorkspace(err, &own):
		return err
	case exists(err):
		return input("to replace it: --overwrite", "%s exists already", dest)
	default:
		return input("ls -ld "+quote(dirOf(dest)), "%s could not be written: %s", dest, reasonOf(err))
	}
}

// each does something to all that are named, also behind one that it fails for. It
// returns for which it did, and what went wrong, by name and, for programs, with
// what was done nevertheless.
func each(names []string, do func(string) error) (done []string, err error) {
	done = []string{}
	var first *failure
	for _, name := range names {
		switch e := do(name); {
		case e == nil:
			done = append(done, name)
		case first == nil:
			f := *explain(e)
			first = &f
			if len(names) > 1 {
				first.Message = name + ": " + first.Message
			}
		default:
			first.Message += "; " + name + ": " + explain(e).Message
		}
	}
	if first == nil {
		return done, nil
	}
	first.Done = done
	return done, first
}

// named tells how many, and which where not all that were asked for.
func named(done []string, asked int, what string) string {
	text := count(len(done), what)
	if len(done) < asked {
		text += ": " + strings.Join(done, ", ")
	}
	return text
}
