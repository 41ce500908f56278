package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"brig/orchestrator/private"
)

// maxClientFile bounds a settings file, in bytes.
const maxClientFile = 64 << 20

type mcpInstallOptions struct {
	project bool
	dry     bool
	print   bool
	json    bool
	session string
}

func (p *program) mcpInstallCommand() *cobra.Command {
	var o mcpInstallOptions
	var names []string
	for _, c := range mcpClients() {
		names = append(names, c.Name)
	}
	c := &cobra.Command{
		Use:   "install [CLIENT]",
		Short: "Tell an MCP client of brig",
		Long: `Put brig into the settings of an MCP client, so that the client starts it as: brig mcp.
Only the entry for brig is written, everything else stays byte for byte; the file
that was there is kept beside it, and what changed is shown. Doing it twice changes
nothing. Without CLIENT the clients are listed with their files.

With --print nothing is written: what to enter by hand is shown.

Clients: ` + strings.Join(names, ", "),
		Example: `  brig mcp install claude-code
  brig mcp install codex --dry-run
  brig mcp install vscode --project`,
		ValidArgs: names,
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("session") {
				if err := checkName(o.session); err != nil {
					return err
				}
			}
			switch {
			case len(args) > 1:
				return usage("brig mcp install "+args[0], "one client at a time")
			case len(args) == 0:
				return p.mcpClientList(o)
			}
			return p.mcpInstall(args[0], names, o)
		},
	}
	c.Flags().BoolVar(&o.project, "project", false, "for the directory that brig is started in, in the place of all of your work")
	c.Flags().BoolVar(&o.dry, "dry-run", false, "show what would change and change nothing")
	c.Flags().BoolVar(&o.print, "print", false, "show what to enter by hand, also for HTTP, and change nothing")
	c.Flags().StringVar(&o.session, "session", "", "the `NAME` of a session that the client always uses; without it each start gets a fresh one")
	c.Flags().BoolVar(&o.json, "json", false, "print one JSON object")
	return c
}

// mcpInstalled is what was done, in --json.
type mcpInstalled struct {
	Client  string `json:"client"`
	File    string `json:"file"`
	Changed bool   `json:"changed"`
	DryRun  bool   `json:"dry_run"`
	Backup  string `json:"backup,omitempty"` // the file as it was
	Diff    string `json:"diff,omitempty"`
	After   string `json:"after"`
}

func (p *program) mcpInstall(name string, names []string, o mcpInstallOptions) error {
	var client *mcpClient
	for _, c := range mcpClients() {
		if c.Name == name {
			client = &c
		}
	}
	if client == nil {
		hint := "brig mcp install"
		if near := nearest(name, names); near != "" {
			hint = "did you mean: brig mcp install " + near
		}
		return usage(hint, "there is no client %q", name)
	}
	executable, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find brig's own file: %w", err)
	}
	server := p.mcpServer(executable, o)
	if left := p.carried(); o.project && len(left) > 0 && !o.json {
		p.tui.warn(escapeLine("not in that file, which others may share: " + strings.Join(slices.Sorted(maps.Keys(left)), ", ") +
			"; brig started by the client does not know these variables of this shell"))
		p.tui.hint("set what has to hold in brig's settings file: " + "brig config path")
	}
	file, err := p.mcpFile(*client, o.project)
	if err != nil {
		return err
	}
	if o.print {
		return p.mcpPrint(*client, file, server)
	}
	done, err := client.install(file, server, o.dry)
	if err != nil {
		return input(fmt.Sprintf("to see what to enter by hand: brig mcp install %s --print", name), "%s was not changed: %s", file, because(err))
	}
	if o.json {
		return p.printJSON(done)
	}
	for line := range strings.Lines(done.Diff) {
		fmt.Fprintln(p.tui.stdout, escapeLine(strings.TrimSuffix(line, "\n")))
	}
	switch {
	case !done.Changed:
		fmt.Fprintf(p.tui.stdout, "%s knows this brig already: %s\n", client.Title, escapeLine(file))
	case o.dry:
		p.tui.note("nothing was changed")
	default:
		p.tui.note("%s: brig was entered in %s", client.Title, escapeLine(file))
		if done.Backup != "" {
			p.tui.note("the file as it was: %s", escapeLine(done.Backup))
		}
		p.tui.note("%s", client.after)
		p.tui.note("its tools run code only where you allow it without being asked: permissions.profile = \"auto-approve\"; agent.token runs code over HTTP whatever that says")
	}
	return nil
}

// mcpFile is the file of a client's settings.
func (p *program) mcpFile(c mcpClient, project bool) (string, error) {
	if !project {
		if file := c.file(p.lookup); file != "" {
			return file, nil
		}
		return "", input("set HOME", "it is not known where %s keeps its settings: your home directory is not known", c.Title)
	}
	if c.project == "" {
		return "", usage("brig mcp install "+c.Name, "%s has no settings for a directory", c.Title)
	}
	file, err := filepath.Abs(c.project)
	if err != nil {
		return "", fmt.Errorf("find the current directory: %w", err)
	}
	return file, nil
}

// install changes the file, and keeps the one that was there beside it.
func (c mcpClient) install(file string, s mcpServer, dry bool) (mcpInstalled, error) {
	done := mcpInstalled{Client: c.Name, File: file, DryRun: dry, After: c.after}
	// Settings are often links into a directory of dot files: what they name is changed.
	if at, err := filepath.EvalSymlinks(file); err == nil {
		file = at
	} else if link, found := os.Lstat(file); found == nil && link.Mode()&fs.ModeSymlink != 0 {
		return done, errors.New("it is a link that leads nowhere")
	}
	before, mode, err := readClientFile(file)
	if err != nil {
		return done, err
	}
	after, err := c.insert(file, before, s)
	if err != nil {
		return done, err
	}
	done.Diff = lineDiff(file, string(before), string(after))
	if done.Changed = done.Diff != ""; !done.Changed || dry {
		return done, nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return done, err
	}
	if before != nil {
		done.Backup = fmt.Sprintf("%s.before-brig-%s", file, time.Now().UTC().Format("20060102T150405Z"))
		if err := writeNew(done.Backup, before, mode); errors.Is(err, fs.ErrExist) {
			if kept, _, err := readClientFile(done.Backup); err != nil || string(kept) != string(before) {
				return done, errors.Join(errors.New("another change of this second was kept under the same name; try again"), err)
			}
		} else if err != nil {
			return done, err
		}
	}
	// The client may have written meanwhile, as Claude Code does all the time.
	if now, _, err := readClientFile(file); err != nil || string(now) != string(before) {
		return done, errors.Join(errors.New("it changed just now; try again"), err)
	}
	return done, private.Replace(file, after, mode)
}

// readClientFile reads a settings file; nil where there is none.
func readClientFile(file string) ([]byte, fs.FileMode, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0o600, nil
	}
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxClientFile {
		return nil, 0, errors.New("it is no file of settings")
	}
	text, err := io.ReadAll(f)
	if text == nil {
		text = []byte{}
	}
	return text, info.Mode().Perm(), err
}

func writeNew(file string, text []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// profileWords is what permissions.profile is, and what it is not.
const profileWords = `Tools run code only where you allow it without being asked, with the setting
permissions.profile = "auto-approve". That setting is about tools alone: whoever has
agent.token or can open agent.sock runs code through POST /v1/run without a person
being asked, whatever it says. Give that credential to no program you would ask first.
`

// mcpPrint shows what to enter by hand.
func (p *program) mcpPrint(c mcpClient, file string, s mcpServer) error {
	text, err := c.insert(file, nil, s)
	if err != nil {
		return err
	}
	out := p.tui.stdout
	fmt.Fprintf(out, "%s: in %s\n\n%s\n", c.Title, escapeLine(file), strings.TrimRight(string(text), "\n"))
	if c.http != "" {
		fmt.Fprintf(out, "\nor through HTTP, while brig up runs; address and token are in endpoint.json and mcp.token of brig's runtime directory:\n\n%s\n",
			fmt.Sprintf(c.http, "ADDRESS", "TOKEN"))
	}
	fmt.Fprint(out, "\n"+profileWords)
	return nil
}

// mcpKnown is one client in --json.
type mcpKnown struct {
	Client    string `json:"client"`
	Title     string `json:"title"`
	File      string `json:"file"`
	Exists    bool   `json:"exists"`
	Installed bool   `json:"installed"` // this brig is entered there
	Problem   string `json:"problem,omitempty"`
}

func (p *program) mcpClientList(o mcpInstallOptions) error {
	executable, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find brig's own file: %w", err)
	}
	rows := []mcpKnown{}
	for _, c := range mcpClients() {
		file, err := p.mcpFile(c, o.project)
		if err != nil {
			continue
		}
		row := mcpKnown{Client: c.Name, Title: c.Title, File: file}
		if _, err := os.Stat(file); err == nil {
			row.Exists = true
			done, err := c.install(file, p.mcpServer(executable, o), true)
			if err != nil {
				row.Problem = because(err)
			}
			row.Installed = err == nil && (!done.Changed || c.starts(file, executable))
		}
		rows = append(rows, row)
	}
	if o.json {
		return p.printJSON(map[string]any{"clients": rows})
	}
	for _, r := range rows {
		state := "no settings there"
		switch {
		case r.Problem != "":
			state = "cannot be read: " + escapeLine(r.Problem)
		case r.Installed:
			state = "knows this brig"
		case r.Exists:
			state = "does not know this brig"
		}
		fmt.Fprintf(p.tui.stdout, "%-14s  %-15s  %s (%s)\n", r.Client, r.Title, escapeLine(r.File), state)
	}
	return nil
}
