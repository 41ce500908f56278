package hostfallback

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"brig/orchestrator/sandbox"
)

// TestInterpreters: each way in which there can be no usable Python has its own
// sentence and a command to type.
func TestInterpreters(t *testing.T) {
	if supported() != nil {
		b, err := New(Options{Owner: "tests", Cache: t.TempDir(), Runtime: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		_, err = b.Probe(t.Context())
		var u *sandbox.Unavailable
		if !errors.Is(err, errors.ErrUnsupported) || !errors.As(err, &u) || u.Remedy == "" {
			t.Errorf("%v", err)
		}
		return
	}
	dir := t.TempDir()
	script := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if err := os.Symlink(dir+"/removed", dir+"/dangling"); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name, python, path, code, says string
	}{
		{"base was removed", dir + "/dangling", "", "python-missing", "is a link to " + dir + "/removed, and that does not exist"},
		{"nothing on PATH", "", dir, "python-missing", "no python3 was found on PATH"},
		{"relative PATH", "", "bin:.", "python-missing", "no python3 was found on PATH"},
		{"no such file", dir + "/none", "", "python-missing", "no such file"},
		{"name not on PATH", "python3.99", dir, "python-missing", "not on PATH"},
		{"directory", dir, "", "python-not-executable", "not an executable file"},
		{"not executable", script("plain", "#!/bin/sh\n", 0o600), "", "python-not-executable", "not an executable file"},
		{"not python", script("liar", "#!/bin/sh\necho hello\n", 0o700), "", "python-broken", `is not a Python interpreter: asked about itself, it answers: "hello"`},
		{"another program", "/bin/ls", "", "python-broken", "/bin/ls is not a Python interpreter: asked about itself, it ends with exit status "},
		{"silent", script("silent", "#!/bin/sh\n", 0o700), "", "python-broken", "is not a Python interpreter: asked about itself, it answers nothing"},
		{"garbage", script("garbage", "#!/bin/sh\nhead -c 3000000 /dev/zero | tr '\\0' g\n", 0o700), "", "python-broken", "it answers: \"ggg"},
		{"empty answer", script("empty", "#!/bin/sh\necho '{}'\n", 0o700), "", "python-broken", `it answers: "{}"`},
		{"no program", script("format", "\x7fELF no more", 0o700), "", "python-broken", "it ends with exec format error"},
		{"fails", script("fails", "#!/bin/sh\necho 'oh \x1b[31mno' >&2; exit 3\n", 0o700), "", "python-broken", `oh \x1b[31mno`},
		{"too old", script("old", `#!/bin/sh
echo '{"version":[3,7,16],"implementation":"CPython","executable":"/bin/sh"}'
`, 0o700), "", "python-too-old", "is Python 3.7.16, and brig needs 3.8"},
		{"very old", script("older", `#!/bin/sh
[ "$1" = -V ] && { echo Python 2.7.18 >&2; exit 0; }
echo "Unknown option: -I" >&2; exit 2
`, 0o700), "", "python-too-old", "is Python 2.7.18, and brig needs 3.8"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b, err := New(Options{
				Owner: "tests", Cache: filepath.Join(dir, "cache"), Runtime: filepath.Join(dir, "run"), Python: c.python,
				Env: func(name string) (string, bool) { return map[string]string{"PATH": c.path}[name], name == "PATH" },
			})
			if err != nil {
				t.Fatal(err)
			}
			_, err = b.Probe(t.Context())
			var u *sandbox.Unavailable
			if !errors.As(err, &u) {
				t.Fatalf("probe: %v", err)
			}
			if u.Code != c.code || !strings.Contains(u.Reason, c.says) || u.Remedy == "" || u.Backend != sandbox.Host {
				t.Errorf("%+v", u)
			}
			if strings.ContainsAny(u.Reason, "\n\x1b") || len(u.Reason) > 600 || strings.Contains(u.Reason, "import") {
				t.Errorf("no sentence for people: %q", u.Reason)
			}
		})
	}
}

// TestTooWide: no interpreter, however it is installed, opens what is not its own.
func TestTooWide(t *testing.T) {
	home := t.TempDir()
	for _, dir := range []string{"python", ".config/brig/sub", "project/src"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	o := Options{
		Cache: "/nonexistent/cache", Runtime: "/nonexistent/run", Protected: []string{home + "/.config/brig"},
		Env: func(name string) (string, bool) { return home, name == "HOME" },
	}
	resolved, err := filepath.EvalSymlinks(home)
	if err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{
		"/": true, resolved: true, filepath.Dir(resolved): true, resolved + "/.config": true, resolved + "/.config/brig": true,
		"relative": true, resolved + "/missing": true, resolved + "/python": false, resolved + "/project/src": false,
	} {
		if got := o.tooWide(dir); got != want {
			t.Errorf("%s: got %v, want %v", dir, got, want)
		}
	}
}
