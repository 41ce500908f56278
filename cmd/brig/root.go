package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// program is one invocation of brig: what it was given by the system, nothing else.
type program struct {
	stdin   *os.File
	environ []string
	lookup  func(string) (string, bool)
	tui     *console
}

func newProgram() *program {
	return &program{stdin: os.Stdin, environ: environ(), lookup: os.LookupEnv, tui: newConsole(os.Stdout, os.Stderr, os.LookupEnv)}
}

// ended is how a verb that has said everything already chooses its exit code.
type ended exitCode

func (e ended) Error() string { return fmt.Sprintf("exit %d", int(e)) }

// main runs one verb and returns the exit code.
func (p *program) main(args []string) int {
	root := p.root()
	root.SetArgs(args)
	err := root.ExecuteContext(context.Background())
	if failed := p.tui.stdout.failed; failed != nil {
		// An answer that did not arrive was not given.
		err = explainWrite(&writeError{failed})
	}
	if err == nil {
		return int(exitOK)
	}
	var e ended
	if errors.As(err, &e) {
		return int(e)
	}
	f := explain(err)
	if f.quiet {
		return int(f.Exit)
	}
	// Programs find the error where they look for the answer.
	if wantsJSON(args) && p.printJSON(failed{Cause: f.cause(), ExitCode: f.Exit, Error: f}) == nil {
		return int(f.Exit)
	}
	p.tui.fail(f)
	return int(f.Exit)
}

// wantsJSON looks at the raw arguments, because an error may have come before
// they were understood.
func wantsJSON(args []string) bool {
	for _, a := range args {
		if a == "--" {
			return false
		}
		if a == "--json" || a == "--json=true" {
			return true
		}
	}
	return false
}

func (p *program) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "brig",
		Short: "Run the code that AI agents write, contained",
		Long: `brig runs the code that AI agents write: in a hardened container when an engine
answers, in the operating system's own sandbox when none does. Every result says
which it was and why.

  brig run -c 'print(6*7)'     run some code
  brig up                      be there for agents, until told to end
  brig status                  where code would run now, and what holds there
  brig doctor                  what was found on this machine, and what to do about it`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetOut(p.tui.stdout)
	root.SetErr(p.tui.stderr)
	root.SetFlagErrorFunc(explainFlag)
	root.AddCommand(
		p.runCommand(), p.upCommand(), p.downCommand(), p.sessionCommand(), p.filesCommand(), p.dataCommand(), p.selftestCommand(),
		p.statusCommand(), p.doctorCommand(), p.imageCommand(), p.configCommand(),
		p.auditCommand(),
		p.versionCommand(), completionCommand(), exitCodesTopic(),
	)
	root.AddCommand(p.mcpCommand())
	root.SetHelpCommand(helpCommand())
	group(root)
	// What every program answers, beside the verb that does the same.
	asked, asJSON, verbs := false, false, root.RunE
	root.Flags().BoolVarP(&asked, "version", "v", false, "which brig this is, as: brig version")
	root.Flags().BoolVar(&asJSON, "json", false, "with --version: print one JSON object")
	root.RunE = func(c *cobra.Command, args []string) error {
		if asked && len(args) == 0 {
			return p.version(asJSON)
		}
		return verbs(c, args)
	}
	return root
}

// group makes c a command that only holds verbs: alone it shows them, and what
// it does not know gets an answer with the nearest one.
func group(c *cobra.Command) *cobra.Command {
	c.Args = cobra.ArbitraryArgs
	c.SuggestionsMinimumDistance = 2
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		return unknownVerb(c, args[0])
	}
	return c
}

func unknownVerb(c *cobra.Command, verb string) error {
	hint := fmt.Sprintf("%s --help", c.CommandPath())
	if near := c.SuggestionsFor(verb); len(near) > 0 {
		hint = fmt.Sprintf("did you mean: %s %s", c.CommandPath(), near[0])
	} else if looksLikeFile(verb) && c.Parent() == nil {
		hint = fmt.Sprintf("to run a file: brig run %s", verb)
	}
	return usage(hint, "unknown verb %q of %s", verb, c.CommandPath())
}

func looksLikeFile(s string) bool {
	return strings.HasSuffix(s, ".py") || strings.ContainsAny(s, `/\`)
}

func exitCodesTopic() *cobra.Command {
	return &cobra.Command{Use: "exit-codes", Short: "What brig's exit codes mean", Long: exitTable()}
}

func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [verb]",
		Short: "Help about a verb or a topic",
		RunE: func(c *cobra.Command, args []string) error {
			at := c.Root()
			for _, a := range args {
				next := slices.IndexFunc(at.Commands(), func(s *cobra.Command) bool { return s.Name() == a })
				if next < 0 {
					return unknownVerb(at, a)
				}
				at = at.Commands()[next]
			}
			at.InitDefaultHelpFlag()
			return at.Help()
		},
	}
}

// noArgs refuses what a verb does not take.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage(c.CommandPath()+" --help", "unexpected argument %q: %s takes none", args[0], c.CommandPath())
	}
	return nil
}

// explainFlag turns what the flag parser says into one sentence and a hint.
func explainFlag(c *cobra.Command, err error) error {
	help := "" + c.CommandPath() + " --help"
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		name := unknown.GetSpecifiedName()
		if group := unknown.GetSpecifiedShortnames(); group != "" {
			return usage(help, "unknown flag -%s of %s", name, c.CommandPath())
		}
		if near := nearestFlag(c, name); near != "" {
			help = fmt.Sprintf("did you mean: %s --%s", c.CommandPath(), near)
		}
		return usage(help, "unknown flag --%s of %s", name, c.CommandPath())
	}
	var missing *pflag.ValueRequiredError
	if errors.As(err, &missing) {
		return usage(help, "flag --%s needs a value: %s", missing.GetFlag().Name, plainUsage(missing.GetFlag()))
	}
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		var f *failure
		if errors.As(invalid.Unwrap(), &f) {
			return f
		}
		return usage(help, "%q is no value for --%s: %s", invalid.GetValue(), invalid.GetFlag().Name, plainUsage(invalid.GetFlag()))
	}
	return usage(help, "%s", err.Error())
}

// plainUsage is a flag's description without the marks around its value's name.
func plainUsage(f *pflag.Flag) string {
	_, text := pflag.UnquoteUsage(f)
	return text
}

func nearestFlag(c *cobra.Command, name string) string {
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return nearest(name, names)
}

// nearest returns the candidate that is at most two typing mistakes away from
// name, or that begins with it, or nothing.
func nearest(name string, candidates []string) string {
	best, at := "", 3
	for _, c := range candidates {
		d := distance(name, c)
		if d > 1 && len(name) > 1 && strings.HasPrefix(c, name) {
			d = 1
		}
		if d < at {
			best, at = c, d
		}
	}
	return best
}

// distance is the Levenshtein distance of two short words.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
