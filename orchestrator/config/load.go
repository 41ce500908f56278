package config

import (
	"errors"
	"path/filepath"
)

// From says which of the three places a value comes from.
type From string

// Places of values, the later ones stronger.
const (
	FromDefault     From = "default"
	FromFile        From = "file"
	FromEnvironment From = "environment"
)

// Source is where one value comes from.
type Source struct {
	From  From
	Where string // /home/a/.config/brig/config.toml:12, or the name of a variable
	Raw   string // as it stands there
}

// Loaded is the outcome of Load.
type Loaded struct {
	Config  Config
	Path    string // of the settings file
	Found   bool   // the file exists
	Sources map[string]Source
}

// Unused lists the keys that were set although their feature does not exist in
// this version, so that nobody believes them to be in force.
func (l Loaded) Unused() []string {
	var out []string
	for _, r := range table() {
		if r.unused && l.Sources[r.name].From != FromDefault {
			out = append(out, r.name)
		}
	}
	return out
}

// LoadEnviron is Load with the whole environment, as os.Environ returns it. It
// also finds misspelt variables, which a look-up cannot.
func LoadEnviron(environ []string, path string) (Loaded, error) {
	return load(variablesOf(environ), path, unknownVariables(environ))
}

// Load reads the settings file at path and the environment. An empty path means
// the one in BRIG_CONFIG and else the usual one, which need not exist; a path that
// somebody named must. The error is an *Error that lists every problem, and
// nothing is returned beside it.
func Load(env func(string) (string, bool), path string) (Loaded, error) {
	return load(env, path, nil)
}

func load(env func(string) (string, bool), path string, problems []Problem) (Loaded, error) {
	path, named, problem := where(env, path)
	if problem != nil {
		return Loaded{}, asError(append([]Problem{*problem}, problems...))
	}
	l := Loaded{Config: Default(), Path: path, Sources: map[string]Source{}}
	for _, r := range table() {
		l.Sources[r.name] = Source{From: FromDefault, Raw: r.show(l.Config)}
	}
	data, ok, problem := readFile(path, homeDirectory(env), named)
	l.Found = ok
	var all []Problem
	if problem != nil {
		all = append(all, *problem)
	}
	sources, found := parseFile(&l.Config, path, data)
	all = append(all, found...)
	merge(l.Sources, sources)
	sources, found = fromEnvironment(&l.Config, env)
	all = append(append(all, found...), problems...)
	merge(l.Sources, sources)
	if len(all) == 0 {
		// With a broken value the rules between keys would only repeat it.
		all = cross(l.Config, func(key string) string { return l.Sources[key].Where })
	}
	if len(all) > 0 {
		return Loaded{}, asError(all)
	}
	return l, nil
}

func merge(into, from map[string]Source) {
	for key, s := range from {
		into[key] = s
	}
}

// where finds the settings file and says whether somebody named it.
func where(env func(string) (string, bool), path string) (string, bool, *Problem) {
	source := ""
	if path == "" {
		path, _ = env("BRIG_CONFIG")
		source = "BRIG_CONFIG"
	}
	if path != "" {
		full, err := filepath.Abs(path)
		if err != nil {
			return "", false, &Problem{Source: source, Text: "the directory of this process cannot be found", Err: err}
		}
		return full, true, nil
	}
	paths, err := FindPaths(env)
	if err == nil {
		return filepath.Join(paths.Config, "config.toml"), false, nil
	}
	var e *Error
	if errors.As(err, &e) {
		return "", false, &e.Problems[0]
	}
	return "", false, &Problem{Text: err.Error(), Err: err}
}
