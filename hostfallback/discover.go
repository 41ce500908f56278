package hostfallback

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Where an interpreter is on Windows: on PATH, or in the registry, where
// installers note it (PEP 514) and the py launcher looks too. Everything here is
// a matter of names and can be tested on any system.

// registered is an interpreter that an installer has noted.
type registered struct {
	Company string // such as PythonCore
	Tag     string // such as 3.13, or 3.13-32
	Path    string // of the executable
}

// search is what a search looks at.
type search struct {
	path string // the variable PATH
	// size tells how large the program at a path is, and whether one is there. A
	// placeholder has none.
	size       func(path string) (int64, bool)
	registered []registered
}

const (
	remedyWinget        = "winget install Python.Python.3.13"
	remedyConfigureOnNT = `set host.python to an interpreter of 3.8 or newer, for example: setx BRIG_HOST_PYTHON C:\Python313\python.exe`
)

// find locates an interpreter by name or path; an empty name means any.
func (s search) find(want string) (path, source string, err error) {
	switch {
	case want == "":
		return s.any()
	case !strings.ContainsAny(want, `\/`):
		return s.named(want)
	}
	size, ok := s.size(want)
	switch {
	case !absoluteOnNT(want):
		return "", "", unavailable("python-missing", remedyConfigureOnNT, nil, "host.python is %s, which is no absolute path", want)
	case !ok:
		for _, inside := range []string{`\python.exe`, `\Scripts\python.exe`} {
			if size, ok := s.size(strings.TrimRight(want, `\/`) + inside); ok && size > 0 {
				return "", "", unavailable("python-not-executable", "setx BRIG_HOST_PYTHON "+strings.TrimRight(want, `\/`)+inside, nil,
					"host.python %s is a directory and not a program", want)
			}
		}
		return "", "", unavailable("python-missing", remedyConfigureOnNT, nil, "host.python is %s, and there is no such program", want)
	case size == 0:
		return "", "", placeholder(want)
	}
	return want, "host.python", nil
}

// any is the first on PATH, or else the newest in the registry.
func (s search) any() (path, source string, err error) {
	stub := ""
	for _, dir := range s.directories() {
		for _, name := range []string{"python.exe", "python3.exe"} {
			file := dir + `\` + name
			switch size, ok := s.size(file); {
			case ok && size > 0:
				return file, "found on PATH", nil
			case ok && stub == "":
				stub = file
			}
		}
	}
	if path, ok := s.newest(); ok {
		return path, "found in the registry", nil
	}
	if stub != "" {
		return "", "", placeholder(stub)
	}
	return "", "", unavailable("python-missing", remedyWinget, nil, "no python.exe was found on PATH or in the registry")
}

func (s search) named(want string) (path, source string, err error) {
	name := want
	if !strings.HasSuffix(strings.ToLower(name), ".exe") {
		name += ".exe"
	}
	stub := ""
	for _, dir := range s.directories() {
		file := dir + `\` + name
		switch size, ok := s.size(file); {
		case ok && size > 0:
			return file, "host.python", nil
		case ok && stub == "":
			stub = file
		}
	}
	if stub != "" {
		return "", "", placeholder(stub)
	}
	return "", "", unavailable("python-missing", remedyConfigureOnNT, nil, "host.python is %s, and that is not on PATH", want)
}

// placeholder is the answer for the file of no bytes that Windows itself puts on
// PATH. Started by a program it prints a hint or opens the store, and is no Python.
func placeholder(path string) error {
	return unavailable("python-store-stub", remedyWinget, nil,
		"%s is only a placeholder of the Microsoft Store, and no Python is installed behind it", path)
}

// directories are those of PATH that do not depend on where brig was started.
func (s search) directories() []string {
	var out []string
	for _, dir := range strings.Split(s.path, ";") {
		dir = strings.TrimRight(strings.Trim(dir, `"`), `\/`)
		if absoluteOnNT(dir) {
			out = append(out, dir)
		}
	}
	return out
}

func absoluteOnNT(path string) bool {
	return strings.HasPrefix(path, `\\`) || len(path) >= 3 && path[1] == ':' && (path[2] == '\\' || path[2] == '/')
}

// newest is the highest version that is there. Those of python.org come before
// those of other makers, and 64 bits before 32.
func (s search) newest() (string, bool) {
	found := slices.DeleteFunc(slices.Clone(s.registered), func(r registered) bool {
		size, ok := s.size(r.Path)
		return !ok || size == 0 || !absoluteOnNT(r.Path) || tagVersion(r.Tag) < 300
	})
	if len(found) == 0 {
		return "", false
	}
	slices.SortStableFunc(found, func(a, b registered) int {
		core := func(r registered) int {
			if r.Company == "PythonCore" {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(core(a), core(b)), cmp.Compare(tagVersion(b.Tag), tagVersion(a.Tag)), strings.Compare(a.Tag, b.Tag))
	})
	return found[0].Path, true
}

// tagVersion reads "3.13-32" as 313; 0 is no version.
func tagVersion(tag string) int {
	tag, _, _ = strings.Cut(tag, "-")
	major, minor, _ := strings.Cut(tag, ".")
	a, err := strconv.Atoi(major)
	b, berr := strconv.Atoi(minor)
	if err != nil || berr != nil || b > 99 {
		return 0
	}
	return a*100 + b
}
