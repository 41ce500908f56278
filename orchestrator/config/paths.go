package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Paths are brig's own directories. None of them is visible from inside any instance.
type Paths struct {
	Config  string // config.toml
	State   string // database, audit log
	Data    string // session workspaces
	Cache   string // what can be made again
	Runtime string // socket, token: gone with the session of the user where the system does that
}

// FindPaths tells where this user's directories are. It looks at the environment
// and creates nothing.
func FindPaths(env func(string) (string, bool)) (Paths, error) {
	p, problem := findPaths(env)
	if problem != nil {
		return Paths{}, asError([]Problem{*problem})
	}
	return p, nil
}

// Ensure makes the directories that are missing, for this user alone (0700), and
// refuses one that belongs to somebody else or that others can write. Directories
// that others can only read are closed to them.
func Ensure(p Paths) error {
	var problems []Problem
	for _, dir := range []string{p.Config, p.State, p.Data, p.Cache, p.Runtime} {
		if problem := ensure(dir); problem != nil {
			problems = append(problems, *problem)
		}
	}
	return asError(problems)
}

func ensure(dir string) *Problem {
	bad := func(err error, remedy, text string) *Problem {
		return &Problem{Source: dir, Text: text, Suggestion: remedy, Err: err}
	}
	if !filepath.IsAbs(dir) {
		return bad(nil, "", "the path of a directory of brig's own is not absolute")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return bad(err, "", "the directory cannot be made: "+reason(err))
	}
	// The handle is judged and changed, not the name: the parent may be open to others.
	root, err := os.OpenRoot(dir + string(filepath.Separator) + ".")
	if err != nil {
		return bad(err, "", "the directory cannot be opened: "+reason(err))
	}
	defer root.Close()
	info, err := root.Stat(".")
	if err != nil {
		return bad(err, "", "the directory cannot be examined: "+reason(err))
	}
	if text, remedy := private(dir, info); text != "" {
		return bad(fs.ErrPermission, remedy, text)
	}
	if info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	if err := root.Chmod(".", 0o700); err != nil {
		return bad(err, "chmod 700 "+shellWord(dir), "the directory cannot be closed to others: "+reason(err))
	}
	return nil
}

// reason is the system's own word for an error, without the path again.
func reason(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}

// absolute takes a variable that must hold an absolute path; ok is false where it is not set.
func absolute(env func(string) (string, bool), name string) (path string, ok bool, _ *Problem) {
	value, _ := env(name)
	if value == "" {
		return "", false, nil
	}
	wrong := ""
	switch {
	case !filepath.IsAbs(value):
		wrong = "is not an absolute path"
	case strings.ContainsAny(value, "\x00\n"):
		wrong = "has a line break in it, and brig's directories may not"
	}
	if wrong != "" {
		return "", false, &Problem{
			Source: name, Text: fmt.Sprintf("%s %s", brief(value), wrong),
			Suggestion: "set it to one or unset it",
		}
	}
	return filepath.Clean(value), true, nil
}

// homeDirectory is where the way to a settings file counts as the user's own from;
// empty where nothing says so.
func homeDirectory(env func(string) (string, bool)) string {
	home, ok, problem := absolute(env, "HOME")
	if !ok || problem != nil {
		return ""
	}
	return home
}

// shellWord quotes a path for the command line that a message suggests.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+,:@%", r)
	}
	if s != "" && strings.TrimFunc(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
