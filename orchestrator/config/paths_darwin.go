package config

import "path/filepath"

// findPaths follows the layout of ~/Library. The runtime directory has a short
// name because a socket's path may have 104 bytes only.
func findPaths(env func(string) (string, bool)) (Paths, *Problem) {
	home, ok, problem := absolute(env, "HOME")
	if problem != nil {
		return Paths{}, problem
	}
	if !ok {
		return Paths{}, &Problem{Source: "HOME", Text: "it is not set, so there is no place for brig's files", Suggestion: "set HOME"}
	}
	support := filepath.Join(home, "Library", "Application Support", "brig")
	return Paths{
		Config:  support,
		State:   filepath.Join(support, "state"),
		Data:    filepath.Join(support, "data"),
		Cache:   filepath.Join(home, "Library", "Caches", "brig"),
		Runtime: filepath.Join(support, "run-"+userName()),
	}, nil
}
