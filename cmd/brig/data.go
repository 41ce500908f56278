package main

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"brig/orchestrator/api"
)

// dataCommand holds the verbs about the datasets of a session.
func (p *program) dataCommand() *cobra.Command {
	c := group(&cobra.Command{
		Use:   "data",
		Short: "The datasets of a session: add, list, remove",
		Long: `Tables that the code of a session finds as tables["NAME"], read when they are first
used; the active one is df. They come back with every fresh interpreter.`,
		Example: `  brig data add analysis sales.csv
  brig run --session analysis -c 'print(df)'`,
	})
	c.AddCommand(p.dataAddCommand(), p.dataListCommand(), p.dataRmCommand())
	return c
}

func (p *program) dataAddCommand() *cobra.Command {
	format := choice{flag: "format", allowed: []string{"csv", "tsv", "json", "jsonl", "parquet", "feather", "xlsx", "sqlite"}}
	var name, table string
	active, inside, asJSON := false, false, false
	c := &cobra.Command{
		Use:   "add SESSION FILE",
		Short: "Put a file into a session as a table",
		Long: `Put a CSV, TSV, JSON, JSON lines, Parquet, Feather, XLSX or SQLite file into a
session and register it as a table. Its format is told by its name, unless
--format says it.`,
		Args: needs(2, 2, "one SESSION and one FILE"), ValidArgsFunction: p.completeSession,
		RunE: func(c *cobra.Command, args []string) error {
			r := api.DatasetRequest{Path: args[1], Format: format.value, Table: table, Active: active}
			return p.asks(c.Context(), func(ctx context.Context, b *api.Client) error {
				return p.dataAdd(ctx, b, args[0], name, r, inside, asJSON)
			})
		},
	}
	f := c.Flags()
	f.Var(once("--name", &word{value: &name, flag: "name"}), "name", "call it `NAME`; without it as the file is called")
	f.Var(once("--format", &format), "format", "it is `FORMAT`: csv, tsv, json, jsonl, parquet, feather, xlsx or sqlite")
	format.complete(c)
	f.Var(once("--table", &word{value: &table, flag: "table"}), "table", "which `SHEET` of an xlsx or table of a sqlite file")
	f.BoolVar(&active, "active", false, "make it df")
	f.BoolVar(&inside, "inside", false, "FILE is in the session already")
	f.BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func (p *program) dataAdd(ctx context.Context, b *api.Client, session, name string, r api.DatasetRequest, inside, asJSON bool) error {
	if name == "" {
		name = tableName(r.Path)
	}
	if name == "" {
		return usage("brig data add --name NAME "+quote(session)+" "+quote(r.Path), "the file's name makes no name of a table")
	}
	before, err := b.Datasets(ctx, session)
	if err != nil {
		return err
	}
	undo := func(err error) error { return aboutFile(session, r.Path, err) }
	if !inside {
		if undo, err = p.dataPut(ctx, b, session, &r); err != nil {
			return err
		}
	}
	d, err := b.PutDataset(ctx, session, name, r)
	if err != nil {
		return undo(err)
	}
	answer := addedDataset{Dataset: d}
	if at := slices.IndexFunc(before.Datasets, func(old api.Dataset) bool { return old.Name == name }); at >= 0 {
		answer.Replaced = &before.Datasets[at]
	}
	if asJSON {
		return p.printJSON(answer)
	}
	line := datasetLine(d)
	if old := answer.Replaced; old != nil {
		line += fmt.Sprintf("; it was %s (%s) before, which is replaced", old.Path, strings.TrimSpace(old.Format+" "+old.Table))
	}
	p.tui.note("%s", escapeLine(line))
	return nil
}

// addedDataset is the one object of "brig data add --json".
type addedDataset struct {
	api.Dataset
	Replaced *api.Dataset `json:"replaced,omitempty"` // what had that name before
}

// dataPut puts the file of a request into the session. undo removes it again when the
// request fails, unless a file of that name was there before.
func (p *program) dataPut(ctx context.Context, b *api.Client, session string, r *api.DatasetRequest) (undo func(error) error, err error) {
	if info, err := os.Stat(r.Path); err == nil && info.IsDir() {
		return nil, input("ls "+quote(r.Path), "%s is a directory: a table is one file", r.Path)
	}
	settings, err := p.loadSettings()
	if err != nil {
		return nil, err
	}
	limits := settings.Config.Base().Limits.WithDefaults()
	up, err := planUploads([]string{r.Path}, bounds{file: limits.FileSize, total: limits.Workspace})
	if err != nil {
		return nil, err
	}
	s, err := b.Session(ctx, session)
	if err != nil {
		return nil, err
	}
	r.Path = up.files[0].name
	_, err = b.StatFile(ctx, s.ID, r.Path)
	fresh := api.IsProblem(err, api.CodeNotFound)
	if err := (&there{client: b, named: true, session: s}).upload(ctx, up); err != nil {
		return nil, err
	}
	return func(err error) error {
		if !fresh {
			f := *explain(err)
			f.Message += "; the file " + r.Path + " in the session is the new one"
			return &f
		}
		bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		if left := b.RemoveFile(bound, s.ID, r.Path, api.RemoveOptions{}); left != nil {
			f := *explain(err)
			f.Message += "; the file " + r.Path + " was left in the session: " + problemText(left)
			return &f
		}
		return err
	}, nil
}

// tableName makes the name of a table from that of a file.
func tableName(file string) string {
	base := path.Base(filepath.ToSlash(file))
	base, _, _ = strings.Cut(base, ".")
	name := strings.Map(func(r rune) rune {
		if r < 0x80 && (r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z') {
			return r
		}
		return '_'
	}, base)
	if strings.Trim(name, "_") == "" {
		return ""
	}
	return name[:min(64, len(name))]
}

// datasetLine is a table in one line.
func datasetLine(d api.Dataset) string {
	line := fmt.Sprintf("tables[%q] is %s (%s, %s)", d.Name, d.Path, strings.TrimSpace(d.Format+" "+d.Table), size(d.Bytes))
	if d.Active {
		line += ", and df"
	}
	if d.Problem != "" {
		line += "; it cannot be read: " + d.Problem
	}
	return line
}

func (p *program) dataListCommand() *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use: "list SESSION", Short: "List the tables of a session",
		Args: needs(1, 1, "one SESSION"), ValidArgsFunction: p.completeSession,
		RunE: func(c *cobra.Command, args []string) error {
			return p.asks(c.Context(), func(ctx context.Context, b *api.Client) error {
				list, err := b.Datasets(ctx, args[0])
				if err != nil {
					return err
				}
				if asJSON {
					return p.printJSON(list)
				}
				if len(list.Datasets) == 0 {
					p.tui.note("no dataset; to add one: brig data add %s FILE", escapeLine(quote(args[0])))
				}
				for _, d := range list.Datasets {
					fmt.Fprintln(p.tui.stdout, escapeLine(datasetLine(d)))
				}
				return nil
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func (p *program) dataRmCommand() *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use: "rm SESSION NAME...", Short: "Forget tables of a session; their files stay",
		Args: needs(2, -1, "one SESSION and one NAME or more"), ValidArgsFunction: p.completeSession,
		RunE: func(c *cobra.Command, args []string) error {
			return p.asks(c.Context(), func(ctx context.Context, b *api.Client) error {
				done, err := each(args[1:], func(name string) error {
					err := b.RemoveDataset(ctx, args[0], name)
					if api.IsProblem(err, api.CodeNotFound) {
						return input("brig data list "+quote(args[0]), "%s", problemText(err))
					}
					return err
				})
				if asJSON && err == nil {
					return p.printJSON(map[string]any{"removed": done})
				}
				if len(done) > 0 && !asJSON {
					p.tui.note("removed %s; the files are there still", escapeLine(named(done, len(args)-1, "dataset")))
				}
				return err
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}
