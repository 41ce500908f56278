package hostfallback

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

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
		{"hangs", script("hangs", "#!/bin/sh\necho 'Password:' >&2\nexec sleep 100\n", 0o700), "", "python-hangs", `does not say within 3s what it is: "Password:"`},
		{"another processor", script("foreign", foreign, 0o700), "", "python-broken", "it is for another processor or system, or damaged"},
		{"version manager without the version", script("shim", `#!/bin/sh
echo "pyenv: version '3.99.0' is not installed (set by /home/u/.pyenv/version)" >&2; exit 1
`, 0o700), "", "python-broken", "pyenv: version '3.99.0' is not installed"},
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
				Owner: "tests", Cache: filepath.Join(dir, "cache"), Runtime: filepath.Join(dir, "run"), Python: c.python, patience: 3 * time.Second,
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

// foreign is the beginning of a program for a processor that does not exist.
const foreign = "\x7fELF\x02\x01\x01" + "\x00\x00\x00\x00\x00\x00\x00\x00\x00" + "\x02\x00\xff\x7f\x01\x00\x00\x00" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x40\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x40\x00\x38\x00\x00\x00\x40\x00\x00\x00\x00\x00"

// TestStandIn: Apple's stand-in counts only where there is a Python behind it.
func TestStandIn(t *testing.T) {
	t.Parallel()
	there := func(paths ...string) func(string) bool {
		return func(path string) bool { return slices.Contains(paths, path) }
	}
	for _, c := range []struct {
		path   string
		exists func(string) bool
		want   bool
	}{
		{"/usr/bin/python3", there(), true},
		{"/usr/bin/python3", there("/usr/bin/python3", "/usr/bin/xcrun"), true},
		{"/usr/bin/python3", there("/Library/Developer/CommandLineTools/usr/bin/python3"), false},
		{"/usr/bin/python3", there("/Applications/Xcode.app/Contents/Developer/usr/bin/python3"), false},
		{"/usr/bin/python3", there("/var/db/xcode_select_link/usr/bin/python3"), false},
		{"/usr/local/bin/python3", there(), false},
		{"/opt/homebrew/bin/python3", there(), false},
	} {
		if got := standIn(c.path, c.exists); got != c.want {
			t.Errorf("%s: %v", c.path, got)
		}
	}
	var u *sandbox.Unavailable
	if err := noPythonBehind(); !errors.As(err, &u) || u.Remedy != "xcode-select --install" {
		t.Errorf("%v", err)
	}
}

func TestStores(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/usr/bin/python3.11":                                          "",
		"/nix/store/abc-python3-3.12/bin/python3.12":                   "/nix/store",
		"/home/linuxbrew/.linuxbrew/Cellar/python@3.13/bin/python3.13": "/home/linuxbrew/.linuxbrew",
		"/opt/homebrew/Cellar/python@3.13/3.13.1/Frameworks/x/python3": "/opt/homebrew/Cellar /opt/homebrew/opt /opt/homebrew/lib /opt/homebrew/Frameworks /opt/homebrew/etc/openssl@3 /opt/homebrew/etc/ca-certificates",
		"/usr/local/bin/python3.12":                                    "",
		"/opt/homebrew/var/python3":                                    "",
		"/Users/ada/.pyenv/versions/3.11.7/bin/python3.11":             "",
	} {
		if got := strings.Join(stores(path), " "); got != want {
			t.Errorf("%s: %s", path, got)
		}
	}
	if got := stores("/usr/local/Cellar/python@3.12/bin/python3.12"); len(got) != 6 || got[0] != "/usr/local/Cellar" {
		t.Errorf("on an older Mac: %v", got)
	}
}

func TestIsProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for text, want := range map[string]bool{
		foreign: true, "MZ\x90\x00": true, "\xcf\xfa\xed\xfe\x0c": true, "\xca\xfe\xba\xbe\x00": true, "#!/bin/sh\n": false, "": false, "\x7fE": false,
	} {
		path := filepath.Join(dir, "f")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := isProgram(path); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// TestTooWide: no interpreter, however it is installed, opens what is not its own.
func TestTooWide(t *testing.T) {
	home := t.TempDir()
	for _, dir := range []string{"python", ".config/brig/sub", "project/src", "checkout/.git", ".local/share/uv/python"} {
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
		"relative": true, resolved + "/missing": true, resolved + "/python": false, resolved + "/checkout": true, resolved + "/.local": true, resolved + "/.local/share/uv/python": false, resolved + "/project/src": false,
	} {
		if got := o.tooWide(dir); got != want {
			t.Errorf("%s: got %v, want %v", dir, got, want)
		}
	}
}

// TestShim: what pyenv says first is the reason, and a version that has it is the remedy.
func TestShim(t *testing.T) {
	root := t.TempDir()
	if shimRemedy(filepath.Join(root, "shims", "python3.12")) != remedyConfigure {
		t.Error("a version is named that is not there")
	}
	bin := filepath.Join(root, "versions", "3.12.4", "bin")
	shims := filepath.Join(root, "shims")
	if err := errors.Join(os.MkdirAll(bin, 0o755), os.MkdirAll(shims, 0o755)); err != nil {
		t.Fatal(err)
	}
	real, shim := filepath.Join(bin, "python3.12"), filepath.Join(shims, "python3.12")
	script := "#!/bin/sh\necho 'pyenv: python3.12: command not found' >&2\necho 'tip: see pyenv global' >&2\nexit 127\n"
	if err := errors.Join(os.WriteFile(real, nil, 0o755), os.WriteFile(shim, []byte(script), 0o755)); err != nil {
		t.Fatal(err)
	}
	if got := shimRemedy(shim); got != "export BRIG_HOST_PYTHON="+real {
		t.Errorf("remedy %q", got)
	}
	if isWindows {
		return // pyenv for Windows is another program, and starts no scripts of sh
	}
	_, err := Options{}.ask(t.Context(), shim, root)
	var known *sandbox.Unavailable
	if !errors.As(err, &known) || !strings.Contains(known.Reason, "python3.12: command not found") || known.Remedy != "export BRIG_HOST_PYTHON="+real {
		t.Errorf("%v", err)
	}
}
