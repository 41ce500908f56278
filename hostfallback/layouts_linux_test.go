package hostfallback

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"brig/hostfallback/confine"
	"brig/orchestrator/sandbox"
)

// TestLayouts: whichever way an interpreter was installed, it starts confined, says
// that it is the one that was asked for, and finds its own modules.
func TestLayouts(t *testing.T) {
	base := findPython(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	// The user's home is reached by a link, as on machines where it lies on another disk.
	for _, d := range []string{"disk/user", "shims", "versions"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	link := func(target, name string) string {
		path := filepath.Join(dir, name)
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	home := link("disk", "home") + "/user"
	venv := func(python, where string, options ...string) string {
		out, err := exec.Command(python, slices.Concat([]string{"-I", "-m", "venv", "--without-pip"}, options, []string{where})...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		own := filepath.Join(where, "lib", pythonName(t, base), "site-packages", "only_here.py")
		if err := os.WriteFile(own, []byte("here = 1\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(where, "bin", "python3")
	}
	plain := venv(base, home+"/my project/.venv")
	copied := venv(base, dir+"/versions/3-copied", "--copies")
	nested := venv(plain, home+"/nested")
	alias := link("3-copied", "versions/3")
	shim := filepath.Join(dir, "shims", "python3")
	if err := os.WriteFile(shim, []byte("#!/bin/sh\nexec '"+alias+"/bin/python3' \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	chain := link(link(plain, "second"), "first")
	conda := relocated(t, base, dir+"/miniconda3/envs/work")
	if err := os.MkdirAll(dir+"/miniconda3/envs/work/conda-meta", 0o755); err != nil {
		t.Fatal(err)
	}
	ofConda := venv(conda, home+"/of conda")
	for name, c := range map[string]struct{ python, prefix, imports string }{
		"system":                         {base, "", "ssl"},
		"virtual environment":            {plain, home + "/my project/.venv", "only_here"},
		"of copies":                      {copied, dir + "/versions/3-copied", "only_here"},
		"of a virtual environment":       {nested, home + "/nested", "only_here"},
		"version manager's alias":        {alias + "/bin/python3", alias, "only_here"},
		"version manager's script":       {shim, alias, "only_here"},
		"links to a virtual environment": {chain, "", "ssl"},
		"conda":                          {conda, dir + "/miniconda3/envs/work", "email.parser"},
		"virtual environment of conda":   {ofConda, home + "/of conda", "only_here"},
	} {
		t.Run(name, func(t *testing.T) {
			b := testBackend(t)
			b.options.Python = c.python
			i := openInstance(t, b, testBase())
			out, _ := output(t, i, "r1", "import sys, ssl, sqlite3, json, ctypes, "+c.imports+"\nprint(sys.prefix)\n"+
				"import subprocess\nprint(subprocess.run([sys.executable, '-c', 'print(6*7)'], capture_output=True, text=True).stdout, end='')")
			if prefix, rest, _ := strings.Cut(out, "\n"); rest != "42\n" || c.prefix != "" && prefix != c.prefix {
				t.Errorf("%s", out)
			}
			if !strings.HasPrefix(i.Posture().Identity, "cpython 3.") {
				t.Errorf("identity %q", i.Posture().Identity)
			}
		})
	}
	b := testBackend(t)
	b.options.Python = home + "/my project/.venv"
	_, err = b.Probe(t.Context())
	var u *sandbox.Unavailable
	if !errors.As(err, &u) || u.Code != "python-not-executable" || !strings.HasSuffix(u.Remedy, "/.venv/bin/python3") {
		t.Errorf("the directory of an environment: %v", err)
	}
}

// relocated is a copy of an interpreter with all its modules in a directory of its
// own, as conda and version managers make them: it finds everything by where it lies.
func relocated(t *testing.T, base, prefix string) string {
	t.Helper()
	name := pythonName(t, base)
	out, err := exec.Command(base, "-I", "-c", "import os; print(os.path.dirname(os.__file__))").Output()
	if err != nil {
		t.Fatal(err)
	}
	real, err := filepath.EvalSymlinks(base)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"bin", "lib"} {
		if err := os.MkdirAll(filepath.Join(prefix, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for from, to := range map[string]string{strings.TrimSpace(string(out)): "lib/" + name, real: "bin/" + name} {
		if out, err := exec.Command("cp", "-rL", from, filepath.Join(prefix, to)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	python := filepath.Join(prefix, "bin", "python3")
	if err := os.Symlink(name, python); err != nil {
		t.Fatal(err)
	}
	return python
}

// TestHops: every link on the way is found once, by the real name of where it lies.
func TestHops(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir+"/real/deep", 0o700); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{
		"absolute": dir + "/real", "real/up": "../other", "other": "real/deep", "loop": "loop", "dangling": "nowhere",
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string][]confine.Link{
		"/real/deep":           nil,
		"/absolute/deep":       {{Path: dir + "/absolute", Target: dir + "/real"}},
		"/absolute/up":         {{Path: dir + "/absolute", Target: dir + "/real"}, {Path: dir + "/real/up", Target: "../other"}, {Path: dir + "/other", Target: "real/deep"}},
		"/absolute/deep/../up": {{Path: dir + "/absolute", Target: dir + "/real"}, {Path: dir + "/real/up", Target: "../other"}, {Path: dir + "/other", Target: "real/deep"}},
		"/loop":                nil,
		"/dangling":            nil,
		"/absent/thing":        nil,
	} {
		if got := hops(dir+path, dir+path, "relative"); !slices.Equal(got, want) {
			t.Errorf("%s: %v", path, got)
		}
	}
	if got := strangers([]confine.Link{{Path: "/a/b"}, {Path: "/a"}, {Path: "/ab"}}, []string{"/a"}); !slices.Equal(got, []confine.Link{{Path: "/a"}, {Path: "/ab"}}) {
		t.Errorf("%v", got)
	}
}

// findPython is the interpreter of the tests' backend.
func findPython(t *testing.T) string {
	t.Helper()
	in, _, err := testBackend(t).interpreter(t.Context(), testBase())
	if err != nil {
		t.Fatal(err)
	}
	return in.About.Executable
}

func pythonName(t *testing.T, python string) string {
	t.Helper()
	out, err := exec.Command(python, "-I", "-c", "import sys; print('python%d.%d' % sys.version_info[:2])").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
