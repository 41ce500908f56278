package hostfallback

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/sandbox/sandboxtest"
	"brig/orchestrator/wire"
)

// place is a backend somewhere.
func place(t *testing.T, python, cache, runtime string) *Backend {
	t.Helper()
	b, err := New(Options{Env: os.LookupEnv, Owner: "tests", Python: python, Cache: cache, Runtime: runtime})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// worksAt does in an instance what shows that it is a whole one: it writes to both of its
// places, and cannot read what is beside them.
func worksAt(t *testing.T, b *Backend, workspace string) {
	t.Helper()
	secret := filepath.Join(filepath.Dir(workspace), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(secret) })
	i := openIn(t, b, testBase(), workspace)
	source := "import os, tempfile\nopen('wrötten file', 'w').write('x')\ntempfile.NamedTemporaryFile().write(b'x')\n" +
		"try: print(open(" + strconv.QuoteToASCII(secret) + ").read())\nexcept OSError as e: print(type(e).__name__)"
	out, exit := output(t, i, "r", source)
	if exit.Outcome != wire.OutcomeOK || out != "FileNotFoundError\n" && out != "PermissionError\n" {
		t.Errorf("%+v %q", exit, out)
	}
	if raw, err := os.ReadFile(filepath.Join(workspace, "wrötten file")); err != nil || string(raw) != "x" {
		t.Errorf("outside: %q, %v", raw, err)
	}
	if gaps := i.Posture().Warnings(); len(gaps) > 0 {
		t.Errorf("gaps that are not elsewhere: %v", gaps)
	}
}

// TestPlaceNames: names that a careless program takes apart.
func TestPlaceNames(t *testing.T) {
	needWhole(t)
	for _, name := range []string{"with spaces", "it's \"quoted\"", "Ünïcödé 漢字 🦀", "back\\slash \\040", "comma,colon:equals=", "-option", "$HOME;`id`", "new\nline\ttab"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), name)
			workspace := filepath.Join(dir, "workspace "+name)
			if err := os.MkdirAll(workspace, 0o700); err != nil {
				t.Fatal(err)
			}
			// And by a link, as where a home is one.
			link := filepath.Join(t.TempDir(), "link to "+name)
			if err := os.Symlink(dir, link); err != nil {
				t.Fatal(err)
			}
			worksAt(t, place(t, "", filepath.Join(dir, "cache"), filepath.Join(dir, "run")), workspace)
			worksAt(t, place(t, "", filepath.Join(link, "cache"), filepath.Join(link, "run")), filepath.Join(link, "workspace "+name))
		})
	}
}

// TestPlaceFileSystems: a workspace where the instance has something of its own.
func TestPlaceFileSystems(t *testing.T) {
	needWhole(t)
	for _, parent := range []string{"/dev/shm", "/tmp", "/var/tmp"} {
		t.Run(strings.ReplaceAll(parent, "/", "_"), func(t *testing.T) {
			dir, err := os.MkdirTemp(parent, "brig-test-")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			workspace := filepath.Join(dir, "workspace")
			if err := os.Mkdir(workspace, 0o700); err != nil {
				t.Fatal(err)
			}
			worksAt(t, testBackend(t), workspace)
			worksAt(t, place(t, "", filepath.Join(dir, "cache"), filepath.Join(dir, "run")), workspace)
		})
	}
}

// TestPlaceClosed: directories that brig may not write to are named, and nothing runs.
func TestPlaceClosed(t *testing.T) {
	closed := filepath.Join(t.TempDir(), "closed")
	if err := os.Mkdir(closed, 0o500); err != nil {
		t.Fatal(err)
	}
	open := t.TempDir()
	for name, b := range map[string]*Backend{
		"cache":   place(t, "", filepath.Join(closed, "cache"), filepath.Join(open, "run")),
		"runtime": place(t, "", filepath.Join(open, "cache"), filepath.Join(closed, "run")),
	} {
		p, err := b.Prepare(testContext(t), testBase(), t.TempDir())
		if err == nil {
			t.Errorf("%s: prepared: %v", name, p.Close(testContext(t)))
			continue
		}
		if !errors.Is(err, unix.EACCES) || !strings.Contains(err.Error(), closed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A home that is read-only is nothing to an instance, which has one of its own.
	b := testBackend(t)
	b.options.Env = func(name string) (string, bool) {
		if name == "HOME" {
			return closed, true
		}
		return os.LookupEnv(name)
	}
	if out, exit := output(t, openInstance(t, b, testBase()), "r", "import pathlib; p = pathlib.Path.home() / 'f'; p.write_text('x'); print(p.read_text())"); exit.Outcome != wire.OutcomeOK || out != "x\n" {
		t.Errorf("%+v %s", exit, out)
	}
	for name, workspace := range map[string]string{"closed": closed, "missing": filepath.Join(open, "missing")} {
		p, err := testBackend(t).Prepare(testContext(t), testBase(), workspace)
		if name == "missing" {
			if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), workspace) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("a workspace that is read-only can be read: %v", err)
		} else if err := p.Close(testContext(t)); err != nil {
			t.Error(err)
		}
	}
}

// TestRootPlaceFull: a disk without room is an error of whoever writes, and no
// reason for less of a sandbox.
func TestRootPlaceFull(t *testing.T) {
	if os.Getuid() != 0 {
		return
	}
	needWhole(t)
	small := func(size string) string {
		dir := filepath.Join(t.TempDir(), "small")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=0700,size="+size); err != nil {
			sandboxtest.Skip(t, "leave to mount a file system", err.Error())
		}
		t.Cleanup(func() {
			if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
		return dir
	}
	full := small("4k") // its own directory takes that
	if err := os.WriteFile(filepath.Join(full, "f"), make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]*Backend{
		"cache":   place(t, "", filepath.Join(full, "cache"), filepath.Join(t.TempDir(), "run")),
		"runtime": place(t, "", filepath.Join(t.TempDir(), "cache"), filepath.Join(full, "run")),
	} {
		p, err := b.Prepare(testContext(t), testBase(), t.TempDir())
		if err == nil {
			t.Errorf("%s: prepared: %v", name, p.Close(testContext(t)))
		} else if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), full) {
			t.Errorf("%s: %v", name, err)
		}
	}
	workspace := filepath.Join(small("64k"), "workspace")
	if err := os.Mkdir(workspace, 0o700); err != nil {
		t.Fatal(err)
	}
	runtime := small("256k")
	i := openIn(t, place(t, "", filepath.Join(t.TempDir(), "cache"), runtime), testBase(), workspace)
	out, exit := output(t, i, "fill", `
import os, errno
for place in (".", os.environ["HOME"]):
    try:
        with open(place + "/filled", "wb") as f:
            while True: f.write(bytes(65536)); f.flush()
    except OSError as e: print(errno.errorcode[e.errno])`)
	if exit.Outcome != wire.OutcomeOK || out != "ENOSPC\nENOSPC\n" {
		t.Errorf("%+v %s", exit, out)
	}
	if out, exit := output(t, i, "after", "print(6*7)"); exit.Outcome != wire.OutcomeOK || out != "42\n" {
		t.Errorf("with nothing left to write to: %+v %s", exit, out)
	}
	if gaps := i.Posture().Warnings(); len(gaps) > 0 {
		t.Errorf("gaps that are not elsewhere: %v", gaps)
	}
}

// TestPlaceKernels: what a kernel lacks is said with a reason and a remedy in every
// mode, and require runs nothing there.
func TestPlaceKernels(t *testing.T) {
	needWhole(t)
	for _, lacks := range []string{"namespaces", "landlock", "landlock+namespaces", "seccomp+namespaces", "landlock+seccomp+namespaces"} {
		t.Run(lacks, func(t *testing.T) {
			b := poorBackend(t, lacks)
			rows, err := b.Capabilities(testContext(t), testBase())
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range rows {
				if l.State != sandbox.Enforced && (l.Code == "" || l.Reason == "" || l.Remedy == "") {
					t.Errorf("%s is %s, code %q, reason %q, remedy %q", l.ID, l.State, l.Code, l.Reason, l.Remedy)
				}
			}
			i := openInstance(t, b, testBase())
			p := i.Posture()
			for _, l := range rows {
				if got := p.Layer(l.ID); got.State != l.State || got.Code != l.Code {
					t.Errorf("%s: foretold %s %s, found %s %s", l.ID, l.State, l.Code, got.State, got.Code)
				}
			}
			// Whatever Landlock does is done again by the namespaces.
			whole := lacks == "landlock"
			if got := len(p.Warnings()) == 0; got != whole {
				t.Errorf("gaps: %v", p.Warnings())
			}
			_, err = b.Prepare(testContext(t), testBaseOf(sandbox.ModeRequire), t.TempDir())
			var refused *sandbox.Unavailable
			// Without namespaces alone require closes the gap by refusing the calls.
			if lacks != "namespaces" && !whole && (!errors.As(err, &refused) || refused.Code != "host-sandbox-incomplete" || refused.Remedy == "") {
				t.Errorf("require: %v", err)
			}
		})
	}
}

// TestPlaceNetwork: what finds names is granted file by file where the directory has
// sockets in it that take orders.
func TestPlaceNetwork(t *testing.T) {
	for _, path := range networkGrants() {
		if info, err := os.Stat(path); err == nil && info.IsDir() || strings.HasPrefix(path, "/run/") && !strings.HasSuffix(path, ".conf") {
			t.Errorf("%s is granted as a whole", path)
		}
	}
}

// TestStartWithoutDescriptors: the reason why nothing starts is said once.
func TestStartWithoutDescriptors(t *testing.T) {
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	low := unix.Rlimit{Cur: 3, Max: old.Max}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	p := new(process)
	_, err := p.pipes()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	p.drop()
	if !errors.Is(err, unix.EMFILE) || strings.Count(err.Error(), "make a pipe") != 1 {
		t.Errorf("%v", err)
	}
}
