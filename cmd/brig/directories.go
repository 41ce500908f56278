package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"brig/orchestrator/config"
)

// This file looks at brig's own directories, before anything that needs them, and
// finds the command that mends each.

// directory is one of brig's directories by the name that settings give it.
type directory struct{ name, path string }

func directoriesOf(p config.Paths) []directory {
	return []directory{{"config", p.Config}, {"state", p.State}, {"data", p.Data}, {"cache", p.Cache}, {"runtime", p.Runtime}}
}

// checkDirectories makes the directories that are missing and returns everything
// that is wrong with them.
func checkDirectories(p config.Paths) []config.Problem {
	var problems []config.Problem
	if err := config.Ensure(p); err != nil {
		var wrong *config.Error
		if !errors.As(err, &wrong) {
			return []config.Problem{{Text: err.Error(), Err: err}}
		}
		problems = wrong.Problems
	}
	bad := map[string]bool{}
	for i := range problems {
		bad[problems[i].Source] = true
		if problems[i].Suggestion == "" {
			problems[i].Suggestion = mendDirectory(problems[i].Source, problems[i].Err)
		}
	}
	for _, d := range directoriesOf(p) {
		if bad[d.path] || d.name == "config" { // brig writes nothing there
			continue
		}
		if err := writable(d.path); err != nil {
			problems = append(problems, config.Problem{
				Source: d.path, Text: "the directory cannot be written: " + because(err), Suggestion: mendDirectory(d.path, err), Err: err,
			})
		}
	}
	return problems
}

// takes tries whether something can be written: a full disk and a used-up quota let
// directories look fine and files be made, and only refuse what would be in them.
func takes(dir string) error {
	f, err := os.CreateTemp(dir, ".brig-probe-*")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 8<<10))
	if closing := f.Close(); err == nil {
		err = closing
	}
	if gone := os.Remove(f.Name()); err == nil {
		err = gone
	}
	return err
}

// mendDirectory is the command that makes a directory usable. What stands in the
// way is the directory itself or the nearest one above it that exists.
func mendDirectory(dir string, err error) string {
	at, info := dir, fs.FileInfo(nil)
	for {
		var lookErr error
		if info, lookErr = os.Stat(at); lookErr == nil {
			break
		}
		up := filepath.Dir(at)
		if up == at {
			return "mkdir -p -m 700 " + quote(dir)
		}
		if _, lookErr = os.Lstat(at); lookErr == nil {
			break // a link that leads nowhere
		}
		at = up
	}
	switch {
	case info == nil || !info.IsDir():
		return "mv " + quote(at) + " " + quote(at+".old")
	case !errors.Is(err, fs.ErrPermission):
		return "df -h " + quote(at)
	case at == dir && ownedByMe(info):
		return "chmod 700 " + quote(at)
	case ownedByMe(info):
		return "chmod u+rwx " + quote(at)
	default:
		return giveDirectory(dir)
	}
}
