//go:build unix && !darwin

package config

import "path/filepath"

// findPaths follows the XDG base directories. The specification has relative
// values ignored; here they are errors, because ignoring one would put state
// where nobody looks for it.
func findPaths(env func(string) (string, bool)) (Paths, *Problem) {
	home, hasHome, problem := absolute(env, "HOME")
	if problem != nil {
		return Paths{}, problem
	}
	var p Paths
	for _, d := range []struct {
		to             *string
		name, fallback string
	}{
		{&p.Config, "XDG_CONFIG_HOME", ".config"},
		{&p.State, "XDG_STATE_HOME", ".local/state"},
		{&p.Data, "XDG_DATA_HOME", ".local/share"},
		{&p.Cache, "XDG_CACHE_HOME", ".cache"},
	} {
		dir, ok, problem := absolute(env, d.name)
		switch {
		case problem != nil:
			return Paths{}, problem
		case ok:
			*d.to = filepath.Join(dir, "brig")
		case hasHome:
			*d.to = filepath.Join(home, d.fallback, "brig")
		default:
			return Paths{}, &Problem{
				Source: "HOME", Text: "it is not set, so there is no place for brig's files",
				Suggestion: "set HOME, or " + d.name + " and its like",
			}
		}
	}
	dir, ok, problem := absolute(env, "XDG_RUNTIME_DIR")
	if problem != nil {
		return Paths{}, problem
	}
	p.Runtime = filepath.Join(dir, "brig")
	if !ok {
		// Not below the shared temporary directory: anybody could be there first.
		p.Runtime = filepath.Join(p.State, "run-"+userName())
	}
	return p, nil
}
