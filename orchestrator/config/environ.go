package config

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// prefix of every variable of brig's own.
const prefix = "BRIG_"

// otherVariables begin like settings and are none: the file's name, the switch
// of development builds, and the mark that brig itself leaves in an instance.
func otherVariables() []string { return []string{"BRIG_CONFIG", "BRIG_DEVELOPMENT", "BRIG_INSTANCE"} }

// testPrefix is that of variables which only tests read.
const testPrefix = "BRIG_TEST_"

// fromEnvironment reads the variables of every key into c. A variable that is
// set to nothing counts as not set.
func fromEnvironment(c *Config, env func(string) (string, bool)) (map[string]Source, []Problem) {
	sources := map[string]Source{}
	var problems []Problem
	for _, r := range table() {
		type said struct{ name, value, shown string }
		var all []said
		for _, name := range r.variables() {
			value, ok := env(name)
			if !ok || value == "" {
				continue
			}
			if f := r.fromVariable(c, value); f != nil {
				problems = append(problems, r.problem(name, f))
				continue
			}
			all = append(all, said{name, value, r.show(*c)})
			sources[r.name] = Source{From: FromEnvironment, Where: name, Raw: value}
		}
		if len(all) == 2 && all[0].shown != all[1].shown {
			problems = append(problems, Problem{
				Key: r.name, Source: all[1].name,
				Text:       fmt.Sprintf("%s says %s and %s says %s", all[0].name, brief(all[0].value), all[1].name, brief(all[1].value)),
				Suggestion: "unset one of the two",
			})
		}
	}
	slices.SortStableFunc(problems, func(a, b Problem) int { return strings.Compare(a.Source, b.Source) })
	return sources, problems
}

func (r row) fromVariable(c *Config, value string) *fault {
	if !utf8.ValidString(value) {
		return faultf("it is not valid UTF-8")
	}
	return r.parse(c, value)
}

// unknownVariables finds variables that somebody probably meant as settings:
// everything that begins with BRIG_, and near misses of the names without it.
func unknownVariables(environ []string) []Problem {
	var known, aliases []string
	for _, r := range table() {
		known = append(known, r.variables()...)
		if r.alias != "" {
			aliases = append(aliases, r.alias)
		}
	}
	known = append(known, otherVariables()...)
	var out []Problem
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		name = foldVariable(name)
		if value == "" || slices.Contains(known, name) || strings.HasPrefix(name, testPrefix) {
			continue
		}
		near := meant(name, known)
		if !strings.HasPrefix(name, prefix) {
			near = ""
			for _, a := range aliases {
				if distance(name, a) == 1 {
					near = fmt.Sprintf("did you mean %q?", a)
				}
			}
			if near == "" {
				continue
			}
		}
		out = append(out, Problem{Source: shortKey(name), Text: "no setting has this variable", Suggestion: near})
	}
	slices.SortFunc(out, func(a, b Problem) int { return strings.Compare(a.Source, b.Source) })
	return slices.Compact(out)
}

// variablesOf turns a list as os.Environ returns it into a look-up.
func variablesOf(environ []string) func(string) (string, bool) {
	values := make(map[string]string, len(environ))
	for _, pair := range environ {
		// Windows keeps variables whose name begins with "="; none of them is ours.
		if name, value, ok := strings.Cut(pair, "="); ok && name != "" {
			values[foldVariable(name)] = value
		}
	}
	return func(name string) (string, bool) {
		value, ok := values[foldVariable(name)]
		return value, ok
	}
}
