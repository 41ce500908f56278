package hostfallback

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"brig/orchestrator/sandbox"
)

// environmentIn makes a virtual environment in a project of the user.
func environmentIn(t *testing.T) (project, python string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	project = filepath.Join(dir, "project")
	if out, err := exec.Command(findPython(t), "-I", "-m", "venv", "--without-pip", project+"/.venv").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, text := range map[string]string{".env": "secret", "mine.py": "here = 1\n"} {
		if err := os.WriteFile(filepath.Join(project, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return project, filepath.Join(project, ".venv", "bin", "python3")
}

// listen answers on a socket file until the test ends.
func listen(t *testing.T, path string) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // the test may have done so
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("reached\n")) // who asked may be gone
			_ = c.Close()
		}
	}()
}

// TestEditable: a project that is installed in place is named by a .pth file. Its
// modules are not granted, since with them comes everything beside them.
func TestEditable(t *testing.T) {
	needWhole(t)
	project, python := environmentIn(t)
	packages := filepath.Join(project, ".venv", "lib", pythonName(t, python), "site-packages")
	if err := os.WriteFile(filepath.Join(packages, "__editable__.mine.pth"), []byte(project+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	listen(t, project+"/app.sock")
	attack := "import socket\nP = " + strconv.QuoteToASCII(project) + `
def attempt(what, f):
    try: print(what, f())
    except (OSError, ImportError) as e: print(what, type(e).__name__)
attempt("file", lambda: open(P + "/.env").read())
attempt("module", lambda: __import__("mine").here)
def reach():
    s = socket.socket(socket.AF_UNIX); s.connect(P + "/app.sock"); return s.recv(99)
attempt("socket", reach)`
	b := testBackend(t)
	b.options.Python = python
	facts, err := b.Probe(testContext(t))
	if got := facts.Details[NotGranted]; err != nil || !strings.HasPrefix(got, project+", named by a .pth file; ") {
		t.Errorf("%q, %v", got, err)
	}
	i := openInstance(t, b, testBase())
	out, _ := output(t, i, "r1", attack)
	for _, word := range []string{"secret", "module 1", "reached"} {
		if strings.Contains(out, word) {
			t.Errorf("the project came in: %s", out)
		}
	}
	if !slices.ContainsFunc(i.Posture().Notes, func(note string) bool { return strings.HasPrefix(note, "not granted: "+project+", ") }) {
		t.Errorf("%q", i.Posture().Notes)
	}
	if gaps := i.Posture().Warnings(); len(gaps) > 0 {
		t.Errorf("%v", gaps)
	}
	open := testBase()
	open.Mode = sandbox.ModeOff
	if out, _ := output(t, openInstance(t, b, open), "control", attack); !strings.Contains(out, "secret") || !strings.Contains(out, "module 1") || !strings.Contains(out, "reached") {
		t.Errorf("control: %s", out)
	}
}

// TestSocketsInGrants: what listens in the interpreter's own directory can be
// reached, and the row says so as long as it does.
func TestSocketsInGrants(t *testing.T) {
	needWhole(t)
	project, python := environmentIn(t)
	b := testBackend(t)
	b.options.Python = python
	quiet := openInstance(t, b, testBase())
	if row := quiet.Posture().Layer(sandbox.UnixSockets); row.State != sandbox.Enforced {
		t.Errorf("with nothing there: %+v", row)
	}
	if quiet.(*instance).started.Report.Landlock.Used >= 9 {
		return // it sees sockets
	}
	path := project + "/.venv/app.sock"
	listen(t, path)
	i := openInstance(t, b, testBase())
	row := i.Posture().Layer(sandbox.UnixSockets)
	if row.State != sandbox.Partial || row.Code != codeInGrants || !strings.Contains(row.Reason, path) {
		t.Errorf("%+v", row)
	}
	out, _ := output(t, i, "r1", "import socket\ns = socket.socket(socket.AF_UNIX); s.connect("+strconv.QuoteToASCII(path)+"); print(s.recv(99).decode())")
	if !strings.Contains(out, "reached") {
		t.Errorf("the row is too careful: %s", out)
	}
	require := testBase()
	require.Mode = sandbox.ModeRequire
	var refused *sandbox.Unavailable
	if _, err := b.Prepare(testContext(t), require, t.TempDir()); !errors.As(err, &refused) || refused.Code != "host-sandbox-incomplete" {
		t.Errorf("require: %v", err)
	}
}

// TestSocketNames: the kernel's list tells names as they were given.
func TestSocketNames(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	listen(t, dir+"/with blank")
	listen(t, dir+"/other")
	const head = "Num       RefCount Protocol Flags    Type St Inode Path\n"
	line := func(name string) string {
		return "0000000000000000: 00000002 00000000 00010000 0001 01 56018 " + name + "\n"
	}
	for name, c := range map[string]struct {
		table string
		want  []string
	}{
		"none":      {head + "0000000000000000: 00000003 00000000 00000000 0001 03 56018\n", nil},
		"absolute":  {head + line(dir+"/with blank"), []string{dir + "/with blank"}},
		"relative":  {head + line("other") + line("other"), []string{dir + "/other"}},
		"abstract":  {head + line("@"+dir+"/other"), nil},
		"elsewhere": {head + line("/run/other"), nil},
		"gone":      {head + line(dir+"/gone"), nil},
	} {
		if got := socketsOf(c.table, []string{dir, dir + "/with blank", "/nowhere"}); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestHomeInSystem: a home below /usr would be granted with it, so nothing runs.
func TestHomeInSystem(t *testing.T) {
	b := testBackend(t)
	b.options.Env = func(name string) (string, bool) {
		if name == "HOME" {
			return "/usr/share", true
		}
		return os.LookupEnv(name)
	}
	var refused *sandbox.Unavailable
	if _, err := b.Prepare(testContext(t), testBase(), t.TempDir()); !errors.As(err, &refused) || refused.Code != "home-in-system-tree" {
		t.Errorf("%v", err)
	}
	if _, err := b.Capabilities(testContext(t), testBase()); !errors.As(err, &refused) || refused.Remedy == "" {
		t.Errorf("%v", err)
	}
	open := testBase()
	open.Mode = sandbox.ModeOff
	if out, _ := output(t, openInstance(t, b, open), "r1", "print(1)"); out != "1\n" {
		t.Errorf("off: %q", out)
	}
}
