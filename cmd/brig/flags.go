package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"brig/orchestrator/config"
	"brig/orchestrator/sandbox"
)

// onceFlag is a flag that takes one value: given twice, nobody knows which was
// meant. It has the name under which people type it.
type onceFlag struct {
	pflag.Value
	name  string
	given bool
}

func once(name string, v pflag.Value) *onceFlag { return &onceFlag{Value: v, name: name} }

func (o *onceFlag) Set(s string) error {
	if o.given {
		return usage("leave one of the two out", "%s is given twice", o.name)
	}
	o.given = true
	return o.Value.Set(s)
}

// word is a flag that takes any text, and an empty one only where that means something.
type word struct {
	value *string
	flag  string
	empty bool
}

func (w *word) String() string { return *w.value }
func (w *word) Type() string   { return "string" }

func (w *word) Set(s string) error {
	if s == "" && !w.empty {
		return usage("leave --"+w.flag+" out, or give it a value", "the argument of --%s is empty", w.flag)
	}
	*w.value = s
	return nil
}

// choice is a flag that takes one of a few words and answers another one with the nearest.
type choice struct {
	value   string
	flag    string
	allowed []string
}

func (c *choice) String() string { return c.value }
func (c *choice) Type() string   { return c.flag }

func (c *choice) Set(s string) error {
	for _, a := range c.allowed {
		if s == a {
			c.value = s
			return nil
		}
	}
	words := strings.Join(c.allowed, ", ")
	if s == "" {
		return usage("one of: "+words, "the argument of --%s is empty", c.flag)
	}
	hint := "one of: " + words
	if strings.Contains(s, ",") && slices.Contains(c.allowed, allBackends) {
		hint = fmt.Sprintf("for several: --%s %s", c.flag, allBackends)
	} else if near := nearest(strings.ToLower(s), c.allowed); near != "" {
		hint = fmt.Sprintf("did you mean: --%s %s", c.flag, near)
	}
	return usage(hint, "%q is no %s of this brig: it has %s", s, c.flag, words)
}

// complete registers the words of a flag for completion.
func (c *choice) complete(cmd *cobra.Command) {
	err := cmd.RegisterFlagCompletionFunc(c.flag, cobra.FixedCompletions(c.allowed, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic("BUG: a flag that does not exist cannot be completed: " + err.Error())
	}
}

func newBackendFlag() choice {
	return choice{flag: "backend", allowed: []string{string(sandbox.Docker), string(sandbox.Host)}}
}

func newTierFlag() choice { return choice{flag: "tier", allowed: tiers()} }

// timeoutFlag is a duration with a unit; zero means that none was given.
type timeoutFlag time.Duration

func (t *timeoutFlag) String() string {
	if *t == 0 {
		return ""
	}
	return time.Duration(*t).String()
}
func (t *timeoutFlag) Type() string { return "duration" }

func (t *timeoutFlag) Set(s string) error {
	d, err := time.ParseDuration(s)
	switch {
	case s == "":
		return usage("write it as: --timeout 5s", "the argument of --timeout is empty")
	case err != nil && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsDigit(r) }) < 0:
		return usage(fmt.Sprintf("did you mean: --timeout %ss", s), "--timeout %s has no unit", s)
	case err != nil:
		return usage("write it as: --timeout 5s", "%q is no time limit", s)
	case d <= 0:
		return usage("write it as: --timeout 5s", "--timeout %s is no time limit: it must be more than nothing", s)
	}
	*t = timeoutFlag(d)
	return nil
}

// check holds the flag against the longest limit that the settings allow.
func (t timeoutFlag) check(c config.Config) error {
	if longest := c.Limits.MaxTimeout; longest > 0 && time.Duration(t) > longest {
		return usage("raise limits.max_timeout, see: brig config show",
			"--timeout %s is more than the settings allow: at most %s", time.Duration(t), longest)
	}
	return nil
}
