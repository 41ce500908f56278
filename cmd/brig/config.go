package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"brig/orchestrator/config"
)

func (p *program) configCommand() *cobra.Command {
	c := group(&cobra.Command{
		Use:   "config",
		Short: "The settings: what they are, where they come from, whether they are right",
		Long: `brig is set up by a file and by environment variables, the latter winning. Unknown
names and misspelt values are errors, never a weaker mode.`,
	})
	c.AddCommand(p.configShowCommand(), p.configCheckCommand(), p.configPathCommand())
	return c
}

func (p *program) configShowCommand() *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:   "show [KEY...]",
		Short: "Every setting with its value, where it comes from and its default",
		Example: `  brig config show
  brig config show docker.tier limits.memory`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return keyNames(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, keys []string) error { return p.configShow(keys, asJSON) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func keyNames() []string {
	var names []string
	for _, k := range config.Keys() {
		names = append(names, k.Name)
	}
	return names
}

// settingRow is one setting in --json.
type settingRow struct {
	Name    string      `json:"name"`
	Value   string      `json:"value"`
	Default string      `json:"default"`
	From    config.From `json:"from"`
	Where   string      `json:"where,omitempty"`
	Env     []string    `json:"env"`
	Type    string      `json:"type"`
	Allowed string      `json:"allowed,omitempty"`
	Empty   string      `json:"empty,omitempty"`
	Doc     string      `json:"doc"`
	Unused  bool        `json:"unused,omitempty"` // its feature does not exist in this version
}

func (p *program) configShow(keys []string, asJSON bool) error {
	known := keyNames()
	for _, k := range keys {
		if !slices.Contains(known, k) {
			hint := "brig config show"
			if near := nearest(k, known); near != "" {
				hint = "did you mean: brig config show " + near
			}
			return usage(hint, "there is no setting %q", k)
		}
	}
	s, err := p.loadSettings()
	if err != nil {
		return err
	}
	rows := settingRows(s.Loaded, keys)
	if asJSON {
		return p.printJSON(map[string]any{"path": s.Path, "found": s.Found, "settings": rows})
	}
	names, values := 0, 0
	for _, r := range rows {
		names, values = max(names, len(r.Name)), max(values, len(r.Value))
	}
	for _, r := range rows {
		value := cmp.Or(r.Value, "("+cmp.Or(r.Empty, "empty")+")")
		source := string(r.From)
		if r.From != config.FromDefault {
			source = fmt.Sprintf("%s, default %s", r.Where, cmp.Or(r.Default, "("+cmp.Or(r.Empty, "empty")+")"))
		}
		if r.Unused {
			source += "; not used by this version"
		}
		line := fmt.Sprintf("%-*s  %-*s  %s", names, r.Name, values, escapeLine(value), p.tui.stdout.styled(styleDim, escapeLine(source)))
		fmt.Fprintln(p.tui.stdout, line)
	}
	return nil
}

func settingRows(l config.Loaded, only []string) []settingRow {
	rows := config.Render(l)
	var out []settingRow
	for i, k := range config.Keys() {
		if len(only) > 0 && !slices.Contains(only, k.Name) {
			continue
		}
		source := l.Sources[k.Name]
		out = append(out, settingRow{
			Name: k.Name, Value: redact(rows[i].Value), Default: k.Default, From: source.From, Where: source.Where,
			Env: k.Env, Type: k.Type, Allowed: k.Allowed, Empty: k.Empty, Doc: k.Doc, Unused: k.Unused,
		})
	}
	return out
}

func (p *program) configCheckCommand() *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:   "check",
		Short: "Whether the settings and brig's directories are right; every problem at once",
		Long: `Read the settings file and the environment, look at brig's directories (making
those that are missing) and report every problem at once.

Exit status 0 if the settings are right, 1 if not.`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error { return p.configCheck(asJSON) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

// settingProblem is one problem in --json.
type settingProblem struct {
	Key     string `json:"key,omitempty"`
	Source  string `json:"source,omitempty"`
	Problem string `json:"problem"`
	Allowed string `json:"allowed,omitempty"`
	Hint    string `json:"hint,omitempty"`
}

func (p *program) configCheck(asJSON bool) error {
	s, err := p.loadSettings()
	var wrong *config.Error
	if err != nil && !errors.As(err, &wrong) {
		return err
	}
	problems, unused := []settingProblem{}, s.Unused()
	if wrong != nil {
		unused = nil // what is set is not known
	}
	if bad := checkDirectories(s.Paths); len(bad) > 0 {
		all := &config.Error{}
		if wrong != nil {
			all.Problems = wrong.Problems
		}
		wrong = &config.Error{Problems: append(slices.Clone(all.Problems), bad...)}
	}
	if wrong != nil {
		for _, w := range wrong.Problems {
			problems = append(problems, settingProblem{w.Key, w.Source, w.Text, w.Allowed, w.Suggestion})
		}
	}
	if asJSON {
		answer := map[string]any{"ok": wrong == nil, "path": s.Path, "found": s.Found, "environment": s.variables(), "problems": problems, "unused": unused}
		if err := p.printJSON(answer); err != nil {
			return err
		}
	} else {
		p.printCheck(s, wrong)
	}
	if wrong != nil {
		return ended(exitFound)
	}
	return nil
}

func (p *program) printCheck(s settings, wrong *config.Error) {
	if wrong != nil {
		for _, w := range wrong.Problems {
			fmt.Fprintln(p.tui.stdout, escapeLine(w.String()))
		}
		return
	}
	for _, key := range s.Unused() {
		p.tui.note("%s is set, but its feature does not exist in this version", key)
	}
	where, rest := s.Path, "there are no variables"
	if !s.Found {
		where = "there is no file " + s.Path
	}
	if names := s.variables(); len(names) > 0 {
		rest = "variables in force: " + strings.Join(names, ", ")
	} else if !s.Found {
		rest = "the defaults hold"
	}
	fmt.Fprintf(p.tui.stdout, "the settings are right: %s, and %s\n", escapeLine(where), escapeLine(rest))
}

// variables are the names of those that set something, sorted.
func (s settings) variables() []string {
	names := []string{}
	for _, source := range s.Sources {
		if source.From == config.FromEnvironment {
			names = append(names, source.Where)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (p *program) configPathCommand() *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:   "path",
		Short: "Where the settings file is, and brig's directories",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			paths, err := config.FindPaths(p.lookup)
			if err != nil {
				return err
			}
			file := p.settingsFile(paths)
			if asJSON {
				return p.printJSON(map[string]string{
					"file": file, "config": paths.Config, "state": paths.State,
					"data": paths.Data, "cache": paths.Cache, "runtime": paths.Runtime,
				})
			}
			fmt.Fprintln(p.tui.stdout, file)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object with all directories")
	return c
}

// examineSettings tells doctor where settings come from and which are not as by default.
func (p *program) examineSettings(r *report, s settings) {
	found := "does not exist, the defaults hold"
	if s.Found {
		found = "read"
	}
	r.add("settings", "file", stateOK, "", "%s: %s", s.Path, found)
	for _, row := range settingRows(s.Loaded, nil) {
		if row.From != config.FromDefault {
			r.add("settings", row.Name, stateOK, "", "%s (%s)", row.Value, row.Where)
		}
	}
	for _, key := range s.Unused() {
		r.add("settings", key, stateNote, "", "is set, but its feature does not exist in this version")
	}
}

// examineDirectories tells doctor where brig keeps what, and what is wrong there.
func examineDirectories(r *report, paths config.Paths) {
	problems := checkDirectories(paths)
	for _, d := range directoriesOf(paths) {
		at := slices.IndexFunc(problems, func(p config.Problem) bool { return p.Source == d.path })
		if at < 0 && d.name != "config" {
			if err := takes(d.path); err != nil {
				r.add("directories", d.name, stateProblem, mendDirectory(d.path, err), "%s: nothing can be written there: %s", d.path, because(err))
				continue
			}
		}
		if at < 0 {
			r.add("directories", d.name, stateOK, "", "%s", d.path)
			continue
		}
		r.add("directories", d.name, stateProblem, problems[at].Suggestion, "%s: %s", d.path, problems[at].Text)
		problems = slices.Delete(problems, at, at+1)
	}
	for _, p := range problems {
		r.add("directories", "problem", stateProblem, p.Suggestion, "%s: %s", p.Source, p.Text)
	}
	if c, given := consentOf(paths); given {
		r.add("directories", "uncontained", stateNote, c.revoke(), "%s", c)
	}
}
