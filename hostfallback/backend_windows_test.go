package hostfallback

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"brig/hostfallback/confine"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/sandbox/sandboxtest"
	"brig/orchestrator/wire"
)

// windowsBackend is a backend with an interpreter of this system.
func windowsBackend(t *testing.T) *Backend {
	t.Helper()
	python := os.Getenv("BRIG_TEST_WINDOWS_PYTHON")
	if python == "" {
		sandboxtest.Skip(t, "BRIG_TEST_WINDOWS_PYTHON, the path of a python.exe", "it is not set")
	}
	b, err := New(Options{
		// One cache for all tests: an emulation takes long to start an interpreter that is asked what it is.
		Python: python, Env: os.LookupEnv, Cache: filepath.Join(os.TempDir(), "brig-test-cache"), Runtime: filepath.Join(windowsDir(t), "run"), Owner: "o",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	for range 5 { // on a busy machine longer than a person should have to wait
		if _, err = b.Probe(t.Context()); err == nil {
			return b
		}
	}
	t.Fatal(err)
	return nil
}

func windowsDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "brig-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := confine.RemoveTree(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func bound(t *testing.T, b *Backend, mode sandbox.Mode) sandbox.Instance {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	workspace := windowsDir(t)
	p, err := b.Prepare(ctx, sandbox.Base{Mode: mode}, workspace)
	if err != nil {
		t.Fatal(err)
	}
	i, err := p.Bind(ctx, sandbox.Claim{ID: "i1", Workspace: workspace})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := i.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return i
}

type ran struct {
	wire.Exit
	out, errs string
}

func runOn(t *testing.T, i sandbox.Instance, id, source string, during func(out string)) ran {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var got ran
	exit, err := i.Run(ctx, wire.Run{ID: wire.RunID(id), Source: []byte(source)}, func(e wire.Event) error {
		switch e.Kind {
		case wire.EventStdout:
			got.out += string(e.Data)
			if during != nil {
				during(got.out)
			}
		case wire.EventStderr:
			got.errs += string(e.Data)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%v; %q %q", err, got.out, got.errs)
	}
	got.Exit = exit
	return got
}

func TestRunOnWindows(t *testing.T) {
	i := bound(t, windowsBackend(t), sandbox.ModeBestEffort)
	if got := runOn(t, i, "r1", "import os\nx = 41\nprint('hello', os.name)\nos.getcwd()", nil); got.out != "hello nt\n" || got.Outcome != wire.OutcomeOK {
		t.Errorf("%+v", got)
	}
	if got := runOn(t, i, "r2", "print(x + 1)\n1/0", nil); got.out != "42\n" || got.Exception == nil || got.Exception.Name != "ZeroDivisionError" {
		t.Errorf("%+v", got)
	}
	const work = `
import subprocess, sys, tempfile, threading, sqlite3, asyncio, json
with tempfile.TemporaryDirectory() as d:
    open(d + "/f", "w").write("x")
print(subprocess.run([sys.executable, "-c", "print('child')"], capture_output=True, text=True).stdout.strip())
open("file.txt", "w").write("é")
print(open("file.txt", "rb").read())
`
	if got := runOn(t, i, "r3", work, nil); got.out != "child\nb'\\xc3\\xa9'\n" {
		t.Errorf("%+v", got)
	}
	big := runOn(t, i, "r4", "print('x' * 3_000_000)", nil)
	if big.Stdout.Total != 3_000_001 {
		t.Errorf("%+v", big.Exit)
	}
	if got := runOn(t, i, "r5", "import os; os._exit(7)", nil); got.Outcome != wire.OutcomeExit || got.Status != 7 {
		t.Errorf("%+v", got)
	}
	if got := runOn(t, i, "r6", "print('again')", nil); got.out != "again\n" {
		t.Errorf("after the end of an interpreter: %+v", got)
	}
}

func TestInterruptOnWindows(t *testing.T) {
	i := bound(t, windowsBackend(t), sandbox.ModeBestEffort)
	for n, source := range []string{
		"print('on', flush=True)\nwhile True: pass",
		"import time\nprint('on', flush=True)\ntime.sleep(50)",
	} {
		id := string(rune('a' + n))
		asked := false
		began := time.Now()
		got := runOn(t, i, id, source, func(out string) {
			if asked || !strings.Contains(out, "on") {
				return
			}
			asked = true
			go func() { _ = i.Interrupt(context.Background(), wire.RunID(id), wire.Soft, false) }()
		})
		if got.Outcome != wire.OutcomeInterrupted || got.State != wire.StateKept || time.Since(began) > 30*time.Second {
			t.Errorf("%q: %+v after %s", source, got, time.Since(began))
		}
	}
	asked := false
	got := runOn(t, i, "hard", "import subprocess, sys\np = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(50)'])\nprint('on', flush=True)\np.wait()", func(out string) {
		if !asked && strings.Contains(out, "on") {
			asked = true
			go func() { _ = i.Interrupt(context.Background(), "hard", wire.Hard, false) }()
		}
	})
	if got.State != wire.StateLost || got.Swept < 1 {
		t.Errorf("hard: %+v", got)
	}
}

// TestPostureOnWindows: what the kernel keeps is enforced, and of one that only
// accepts everything the rows say so.
func TestPostureOnWindows(t *testing.T) {
	b := windowsBackend(t)
	i := bound(t, b, sandbox.ModeBestEffort)
	p := i.Posture()
	if err := sandbox.Complete(p.Layers); err != nil {
		t.Fatal(err)
	}
	for _, l := range p.Layers {
		t.Logf("%-18s %-11s %-24s %s [%s]", l.ID, l.State, l.Code, l.Reason, l.Evidence)
	}
	emulated := p.Layer(sandbox.MemoryLimit).Code == confine.CodeEmulated
	for _, id := range []sandbox.LayerID{sandbox.MemoryLimit, sandbox.ProcessLimit, sandbox.FSWrite, sandbox.Signals} {
		l := p.Layer(id)
		if emulated && (l.State != sandbox.Off || l.Code != confine.CodeEmulated) {
			t.Errorf("%s is %s %s on a system that keeps nothing", id, l.State, l.Code)
		}
		if !emulated && l.State != sandbox.Enforced && l.State != sandbox.Partial {
			t.Errorf("%s is %s %s", id, l.State, l.Code)
		}
	}
	for id, code := range map[sandbox.LayerID]string{sandbox.FSRead: confine.CodeReadsOpen, sandbox.NetOutbound: confine.CodeNetworkOpen} {
		if l := p.Layer(id); l.State != sandbox.Unsupported || l.Code != code || l.Remedy == "" {
			t.Errorf("%s is %+v", id, l)
		}
	}
	if len(p.Weakened()) == 0 {
		t.Error("it is not weakened")
	}
	rows, err := b.Capabilities(t.Context(), sandbox.Base{Mode: sandbox.ModeBestEffort})
	if err != nil || len(rows) != len(p.Layers) {
		t.Errorf("%d rows, %v", len(rows), err)
	}
	var gone *sandbox.Unavailable
	if _, err := b.Prepare(t.Context(), sandbox.Base{Mode: sandbox.ModeRequire}, windowsDir(t)); !errors.As(err, &gone) || gone.Code != "host-sandbox-incomplete" {
		t.Errorf("require: %v", err)
	}
	if entries, err := os.ReadDir(b.options.instances()); err != nil || len(entries) != 1 {
		t.Errorf("what was refused left %v, %v", entries, err)
	}
}

// TestSweepOnWindows: what a killed brig left is removed, and its journal heeded.
func TestSweepOnWindows(t *testing.T) {
	b := windowsBackend(t)
	home := filepath.Join(b.options.instances(), "dead")
	if err := os.MkdirAll(home, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{ownerFile: "o", confine.LockFile: "", "labels.json": `{"path":"C:\\no-such-directory","before":""}`} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	held, err := occupy(filepath.Join(b.options.instances(), "held"))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, err := abandoned(filepath.Join(b.options.instances(), "held")); ok || err != nil {
		t.Errorf("a held lock counts as abandoned: %v, %v", ok, err)
	}
	held()
	if n, err := b.Sweep(t.Context(), "o", nil); n != 1 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
	if _, err := os.Stat(home); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it stays: %v", err)
	}
}

func TestFilesOnWindows(t *testing.T) {
	i := bound(t, windowsBackend(t), sandbox.ModeBestEffort)
	if got := runOn(t, i, "r1", "import os\nos.mkdir('sub')\nopen('sub/a.txt','w').write('abc')", nil); got.Outcome != wire.OutcomeOK {
		t.Fatalf("%+v", got)
	}
	var out strings.Builder
	if _, err := i.Call(t.Context(), wire.Control{Op: wire.OpGet, Args: wire.ControlArgs{Path: "sub/a.txt"}}, nil, &out); err != nil || out.String() != "abc" {
		t.Errorf("get: %q, %v", out.String(), err)
	}
	if _, err := i.Call(t.Context(), wire.Control{Op: wire.OpPut, Args: wire.ControlArgs{Path: "sub/b.txt"}}, strings.NewReader("xyz"), nil); err != nil {
		t.Errorf("put: %v", err)
	}
	if got := runOn(t, i, "r2", "print(open('sub/b.txt').read())", nil); got.out != "xyz\n" {
		t.Errorf("%+v", got)
	}
	for _, path := range []string{"sub/NUL", "a:b", `sub\a.txt`, "../x", "x. "} {
		if _, err := i.Call(t.Context(), wire.Control{Op: wire.OpGet, Args: wire.ControlArgs{Path: path}}, nil, &out); err == nil {
			t.Errorf("%q was read", path)
		}
	}
	if _, err := i.Call(t.Context(), wire.Control{Op: wire.OpRemove, Args: wire.ControlArgs{Path: "sub"}}, nil, nil); err != nil {
		t.Errorf("remove: %v", err)
	}
	if got := runOn(t, i, "r3", "import os\nprint(os.listdir())", nil); got.out != "[]\n" {
		t.Errorf("%+v", got)
	}
}

// TestStarts is not about the time: a second instance beside the first has its own job.
func TestTwoInstancesOnWindows(t *testing.T) {
	b := windowsBackend(t)
	one, two := bound(t, b, sandbox.ModeBestEffort), bound(t, b, sandbox.ModeOff)
	if err := one.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if got := runOn(t, two, "r1", "print('lives')", nil); got.out != "lives\n" {
		t.Errorf("%+v", got)
	}
	notes := two.Posture().Notes
	if !slices.ContainsFunc(notes, func(n string) bool { return strings.HasPrefix(n, "not sandboxed") }) {
		t.Errorf("off says %v", notes)
	}
}
