package hostfallback

import (
	"errors"
	"strings"
	"testing"

	"brig/orchestrator/sandbox"
)

func TestDiscoverOnWindows(t *testing.T) {
	const (
		stub   = `C:\Users\u\AppData\Local\Microsoft\WindowsApps`
		py313  = `C:\Users\u\AppData\Local\Programs\Python\Python313\python.exe`
		py39   = `C:\Python39\python.exe`
		venv   = `D:\work\.venv\Scripts\python.exe`
		conda  = `C:\conda\python.exe`
		py2    = `C:\Python27\python.exe`
		python = `C:\tools\python3.exe`
	)
	files := map[string]int64{
		stub + `\python.exe`: 0, stub + `\python3.exe`: 0, py313: 100, py39: 100, venv: 50, conda: 100, py2: 100, python: 100,
	}
	all := []registered{
		{"ContinuumAnalytics", "3.14", conda},
		{"PythonCore", "3.9", py39},
		{"PythonCore", "3.13", py313},
		{"PythonCore", "2.7", py2},
		{"PythonCore", "3.14", `C:\gone\python.exe`},
		{"PythonCore", "3.15-dev", `relative\python.exe`},
	}
	for _, c := range []struct {
		name, want, path string
		registered       []registered
		found, source    string
		code, says       string
	}{
		{name: "on path", path: `relative;"D:\work\.venv\Scripts\";C:\Python39`, found: venv, source: "found on PATH"},
		{name: "python3.exe", path: `C:\tools`, found: python, source: "found on PATH"},
		{name: "stub is passed over", path: stub + `;C:\Python39`, found: py39, source: "found on PATH"},
		{name: "newest in the registry", path: stub, registered: all, found: py313, source: "found in the registry"},
		{name: "another maker", registered: all[:1], found: conda, source: "found in the registry"},
		{name: "python 2 is none", registered: all[3:4], code: "python-missing", says: "on PATH or in the registry"},
		{name: "only the stub", path: stub, code: "python-store-stub", says: "placeholder of the Microsoft Store"},
		{name: "relative directories do not count", path: `.venv\Scripts;C:tools`, code: "python-missing"},
		{name: "by name", want: "python3", path: `C:\tools`, found: python, source: "host.python"},
		{name: "by the name of the stub", want: "python3.exe", path: stub, code: "python-store-stub"},
		{name: "by a missing name", want: "pypy", path: `C:\tools`, code: "python-missing", says: "not on PATH"},
		{name: "by path", want: venv, found: venv, source: "host.python"},
		{name: "by the path of the stub", want: stub + `\python.exe`, code: "python-store-stub"},
		{name: "a directory", want: `D:\work\.venv`, code: "python-not-executable", says: "directory"},
		{name: "a missing path", want: `D:\no\python.exe`, code: "python-missing", says: "no such program"},
		{name: "a relative path", want: `.venv\Scripts\python.exe`, code: "python-missing", says: "no absolute path"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := search{path: c.path, registered: c.registered, size: func(path string) (int64, bool) { n, ok := files[path]; return n, ok }}
			path, source, err := s.find(c.want)
			if path != c.found || source != c.source {
				t.Errorf("got %q, %q, want %q, %q (%v)", path, source, c.found, c.source, err)
			}
			var gone *sandbox.Unavailable
			if c.code == "" {
				return
			}
			if !errors.As(err, &gone) || gone.Code != c.code || !strings.Contains(gone.Reason, c.says) || gone.Remedy == "" {
				t.Errorf("got %+v, want the code %s and %q", err, c.code, c.says)
			}
		})
	}
}
