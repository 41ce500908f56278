package config

import "path/filepath"

// findPaths keeps everything below the local part of the profile: none of it
// should travel to other machines.
func findPaths(env func(string) (string, bool)) (Paths, *Problem) {
	local, ok, problem := absolute(env, "LOCALAPPDATA")
	if problem != nil {
		return Paths{}, problem
	}
	if !ok {
		return Paths{}, &Problem{Source: "LOCALAPPDATA", Text: "it is not set, so there is no place for brig's files", Suggestion: "set LOCALAPPDATA"}
	}
	brig := filepath.Join(local, "brig")
	return Paths{
		Config:  filepath.Join(brig, "config"),
		State:   filepath.Join(brig, "state"),
		Data:    filepath.Join(brig, "data"),
		Cache:   filepath.Join(brig, "cache"),
		Runtime: filepath.Join(brig, "run"),
	}, nil
}
