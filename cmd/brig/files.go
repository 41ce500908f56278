package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"brig/orchestrator/api"
	"brig/orchestrator/workspace"
)

func asWorkspace(err error, to **workspace.Error) bool { return errors.As(err, to) }
func exists(err error) bool                            { return errors.Is(err, fs.ErrExist) }

// filesCommand holds the verbs about the files of a session.
func (p *program) filesCommand() *cobra.Command {
	c := group(&cobra.Command{
		Use:   "files",
		Short: "The files of a session: list, put, get, remove",
		Long: `The files in the workspace of a session of the brig that stays. Names in there are
relative, with slashes.`,
		Example: `  brig files put analysis sales.csv
  brig files ls analysis
  brig files get analysis report.pdf`,
	})
	c.AddCommand(p.filesLsCommand(), p.filesPutCommand(), p.filesGetCommand(), p.filesRmCommand())
	return c
}

func (p *program) filesLsCommand() *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use: "ls SESSION [DIR]", Short: "List the files of a session",
		Args: needs(1, 2, "one SESSION and at most one DIR"), ValidArgsFunction: p.completeFile,
		RunE: func(c *cobra.Command, args []string) error {
			prefix := ""
			if len(args) == 2 {
				prefix = args[1]
			}
			return p.asks(c.Context(), func(ctx context.Context, b *api.Client) error { return p.filesLs(ctx, b, args[0], prefix, asJSON) })
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func (p *program) filesLs(ctx context.Context, b *api.Client, session, prefix string, asJSON bool) error {
	all, omitted, err := listFiles(ctx, b, session, prefix)
	if err != nil {
		return aboutFile(session, prefix, err)
	}
	if asJSON {
		return p.printJSON(map[string]any{"files": all, "omitted": omitted})
	}
	rows := [][]string{}
	for _, f := range all {
		bytes, name := size(f.Bytes), f.Path
		switch f.Kind {
		case "dir":
			bytes, name = "-", name+"/"
		case "link", "other":
			bytes = f.Kind
		}
		if f.Problem != "" {
			name += " (" + f.Problem + ")"
		}
		rows = append(rows, []string{f.Modified.Local().Format("2006-01-02 15:04:05"), bytes, name})
	}
	p.table(rows)
	if omitted {
		p.tui.note("the session has more files than brig lists")
	}
	return nil
}

// listFiles are the files below prefix in the order of their names.
func listFiles(ctx context.Context, b api.Brig, session, prefix string) (all []api.File, omitted bool, err error) {
	all = []api.File{}
	page := api.Page{Limit: 1000}
	for {
		list, err := b.Files(ctx, session, prefix, page)
		if err != nil {
			return nil, false, err
		}
		all, omitted = append(all, list.Files...), omitted || list.Omitted
		if page.Cursor = list.Next; page.Cursor == "" {
			return all, omitted, nil
		}
	}
}

func (p *program) filesPutCommand() *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:   "put SESSION SRC[:NAME]...",
		Short: "Put files or directories into a session",
		Long: `Put files or directories into the workspace of a session, under their own names or
under NAME. What is there of the same name is replaced.`,
		Args: needs(2, -1, "one SESSION and one SRC or more"),
		ValidArgsFunction: func(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			return p.completeSession(c, args, word)
		},
		RunE: func(c *cobra.Command, args []string) error {
			settings, err := p.loadSettings()
			if err != nil {
				return err
			}
			limits := settings.Config.Base().Limits.WithDefaults()
			up, err := planUploads(args[1:], bounds{file: limits.FileSize, total: limits.Workspace})
			if err != nil {
				return err
			}
			return p.asks(c.Context(), func(ctx context.Context, b *api.Client) error { return p.filesPut(ctx, b, args[0], up, asJSON) })
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func (p *program) filesPut(ctx context.Context, b *api.Client, session string, up *uploads, asJSON bool) error {
	s, err := b.Session(ctx, session)
	if err != nil {
		return err
	}
	t := &there{client: b, named: true, session: s}
	if err := t.upload(ctx, up); err != nil {
		return err
	}
	names := []string{}
	for _, f := range up.files {
		names = append(names, f.name)
	}
	slices.Sort(names)
	if asJSON {
		return p.printJSON(map[string]any{"files": names, "bytes": up.bytes, "left": append(append([]string{}, up.skipped...), up.hollow...), "links": append([]string{}, up.linked...)})
	}
	if left := up.left(); left != "" {
		p.tui.note("%s", escapeLine(left))
	}
	p.tui.note("put %s (%s) into %s", count(len(names), "file"), size(up.bytes), escapeLine(session))
	return nil
}

func (p *program) filesGetCommand() *cobra.Command {
	replace, asJSON := false, false
	c := &cobra.Command{
		Use:   "get SESSION NAME [DEST|-]",
		Short: "Bring a file or directory of a session back",
		Long: `Bring a file or a directory of a session back, to DEST or into this directory; with
- a file goes to standard output. Nothing that is here already is replaced,
unless --overwrite lets it. Links and special files do not come; they are named.`,
		Args: needs(2, 3, "one SESSION, one NAME and at most one DEST"), ValidArgsFunction: p.completeFile,
		RunE: func(c *cobra.Command, args []string) error {
			dest := ""
			if len(args) == 3 {
				dest = args[2]
			}
			if dest == "-" && asJSON {
				return usage("leave one of the two out", "--json and - both want standard output")
			}
			return p.asks(c.Context(), func(ctx context.Context, b *api.Client) error {
				return p.filesGet(ctx, b, args[0], args[1], dest, replace, asJSON)
			})
		},
	}
	c.Flags().BoolVar(&replace, "overwrite", false, "let it replace what is here already")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func (p *program) filesGet(ctx context.Context, b *api.Client, session, name, dest string, replace, asJSON bool) error {
	name = path.Clean(name)
	open := func(name string) func() (io.ReadCloser, error) {
		return func() (io.ReadCloser, error) {
			r, _, err := b.ReadFile(ctx, session, name, api.Range{})
			return r, err
		}
	}
	if dest == "-" {
		r, err := open(name)()
		if err != nil {
			return aboutFile(session, name, err)
		}
		defer r.Close()
		if p.tui.stdout.terminal {
			e := &escaper{w: p.tui.stdout}
			_, err := io.Copy(e, r)
			return errors.Join(err, e.Flush())
		}
		return p.pour(r)
	}
	_, err := b.StatFile(ctx, session, name)
	if err != nil {
		return p.filesGetDir(ctx, b, session, name, dest, replace, asJSON, err)
	}
	target := dest
	if info, err := os.Stat(dest); dest == "" || strings.HasSuffix(dest, "/") || err == nil && info.IsDir() {
		target = filepath.Join(dest, path.Base(name))
	}
	if err := save(name, open(name), target, !replace); err != nil {
		return explainSave(target, err)
	}
	if asJSON {
		return p.printJSON(map[string]any{"files": []string{target}, "left": []string{}})
	}
	p.tui.note("wrote %s", escapeLine(target))
	return nil
}

// filesGetDir brings a directory back, if there is one of that name: notFile is why no
// file of that name could be read.
func (p *program) filesGetDir(ctx context.Context, b *api.Client, session, name, dest string, replace, asJSON bool, notFile error) error {
	s, err := b.Session(ctx, session)
	if err != nil {
		return err
	}
	prefix := name
	if name == "." {
		prefix = ""
	}
	all, _, err := listFiles(ctx, b, session, prefix)
	if err != nil || len(all) == 0 {
		return aboutFile(session, name, notFile)
	}
	out, err := openOut(filepath.Clean(dest), replace)
	if err != nil {
		return err
	}
	t := &there{client: b, named: true, session: s}
	brought := t.bringFiles(ctx, out, all, nil)
	left := []string{}
	for _, l := range brought.left {
		left = append(left, l.String())
	}
	if asJSON {
		err = p.printJSON(map[string]any{"files": append([]string{}, brought.files...), "left": left})
	} else {
		for _, l := range few(left) {
			p.tui.warn(escapeLine("not brought back: " + l))
		}
		p.tui.note("%s in %s", count(len(brought.files), "file"), escapeLine(out.dir))
	}
	if err == nil && slices.ContainsFunc(brought.left, func(s stayed) bool { return s.lost }) {
		return ended(exitFailed)
	}
	return err
}

func (p *program) filesRmCommand() *cobra.Command {
	recursive, asJSON := false, false
	c := &cobra.Command{
		Use: "rm SESSION NAME...", Short: "Remove files of a session",
		Args: needs(2, -1, "one SESSION and one NAME or more"), ValidArgsFunction: p.completeFile,
		RunE: func(c *cobra.Command, args []string) error {
			return p.asks(c.Context(), func(ctx context.Context, b *api.Client) error {
				done, err := each(args[1:], func(name string) error {
					err := b.RemoveFile(ctx, args[0], path.Clean(name), api.RemoveOptions{Recursive: recursive})
					return aboutFile(args[0], name, err)
				})
				if asJSON && err == nil {
					return p.printJSON(map[string]any{"removed": done})
				}
				if len(done) > 0 && !asJSON {
					p.tui.note("removed %s", escapeLine(named(done, len(args)-1, "name")))
				}
				return err
			})
		},
	}
	c.Flags().BoolVarP(&recursive, "recursive", "r", false, "directories too, with everything in them")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

// completeFile completes a session, and behind it names of its files.
func (p *program) completeFile(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return p.completeSession(c, args, word)
	}
	b, err := p.needDaemon(c.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer b.Close()
	list, err := b.Files(c.Context(), args[0], "", api.Page{Limit: 1000})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, f := range list.Files {
		names = append(names, f.Path)
	}
	return names, cobra.ShellCompDirectiveDefault
}

// aboutFile names the file in what went wrong with it, and what helps.
func aboutFile(session, name string, err error) error {
	var p *api.Problem
	if err == nil || !errors.As(err, &p) {
		return err
	}
	f := *explainProblem(p, err)
	switch p.Code {
	case api.CodeNotFound:
		if strings.Contains(f.Message, "session") {
			return err // not the file is what is missing
		}
		f.Message, f.Remedy = "there is no "+name+" in session "+session, "brig files ls "+quote(session)
	case api.CodeConflict:
		if strings.Contains(f.Message, "directory") {
			f.Message, f.Remedy = name+": "+f.Message, "brig files rm -r "+quote(session)+" "+quote(name)
		}
	default:
		if !strings.Contains(f.Message, name) {
			f.Message = name + ": " + f.Message
		}
	}
	return &f
}
