package hostfallback

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// testBackend is a backend in directories of its own, with the system's interpreter.
func testBackend(t testing.TB) *Backend {
	t.Helper()
	dir := t.TempDir()
	b, err := New(Options{
		Env: os.LookupEnv, Owner: "tests",
		Cache: filepath.Join(dir, "cache"), Runtime: filepath.Join(dir, "run"),
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func testBase() sandbox.Base {
	return sandbox.Base{Network: sandbox.NetworkDeny, Mode: sandbox.ModeBestEffort}
}

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// openInstance prepares and binds an instance that is closed at the end of the test.
func openInstance(t testing.TB, b *Backend, base sandbox.Base) sandbox.Instance {
	t.Helper()
	workspace := filepath.Join(t.TempDir(), "workspace")
	if err := os.Mkdir(workspace, 0o700); err != nil {
		t.Fatal(err)
	}
	return openIn(t, b, base, workspace)
}

func openIn(t testing.TB, b *Backend, base sandbox.Base, workspace string) sandbox.Instance {
	t.Helper()
	ctx := testContext(t)
	p, err := b.Prepare(ctx, base, workspace)
	if err != nil {
		t.Fatal(err)
	}
	i, err := p.Bind(ctx, sandbox.Claim{ID: "test-1", Session: "test", Workspace: workspace})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := i.Close(testContext(t)); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return i
}

// output runs source and returns what it printed.
func output(t testing.TB, i sandbox.Instance, id wire.RunID, source string) (string, wire.Exit) {
	t.Helper()
	var text []byte
	exit, err := i.Run(testContext(t), wire.Run{ID: id, Source: []byte(source)}, func(e wire.Event) error {
		if e.Kind == wire.EventStdout || e.Kind == wire.EventStderr {
			text = append(text, e.Data...)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("run: %v; output: %s", err, text)
	}
	if exit.Exception != nil {
		text = append(text, exit.Exception.Traceback...)
	}
	return string(text), exit
}

// TestPosture: on a whole machine every promised layer holds, what can be
// attempted from inside was attempted, and two instances have the same digest.
func TestPosture(t *testing.T) {
	needWhole(t)
	b := testBackend(t)
	i, other := openInstance(t, b, testBase()), openInstance(t, b, testBase())
	if out, _ := output(t, i, "r1", "6*7; print(6*7)"); out != "42\n" {
		t.Fatalf("output %q", out)
	}
	p := i.Posture()
	if gaps := p.Warnings(); len(gaps) > 0 {
		t.Errorf("gaps: %v", gaps)
	}
	for id, word := range map[sandbox.LayerID]string{
		sandbox.FSWrite: "write_root=", sandbox.FSRead: "list_outside=", sandbox.NetOutbound: "socket_inet=", sandbox.NetLoopback: "interfaces: ",
		sandbox.UnixSockets: "stat_outside=ENOENT", sandbox.ProcessLimit: "nproc=256 nofile=1024; watched=256", sandbox.MemoryLimit: "data=1073741824",
		sandbox.CPULimit: "sched_getaffinity=", sandbox.DiskLimit: "fsize=1073741824; watched=2147483648", sandbox.OutputLimit: "keeps=1048576 logs=67108864",
		sandbox.WallClock: "SUBREAPER=1", sandbox.NoNewPrivs: "NoNewPrivs=1; PR_GET_NO_NEW_PRIVS=1", sandbox.Capabilities: "capget=0000000000000000",
		sandbox.SyscallFilter: "Seccomp=2", sandbox.Signals: "kill_parent=", sandbox.Ptrace: "ptrace_traceme=", sandbox.InheritedFDs: "open at exec: 0,1,2;",
		sandbox.Environment: " HOME ", sandbox.Devices: "devices 1", sandbox.KernelSurface: "unshare_user=", sandbox.TreeKill: "SUBREAPER=1",
	} {
		if l := p.Layer(id); !strings.Contains(l.Evidence, word) || strings.Contains(l.Evidence, "inside") {
			t.Errorf("%s: %q does not say %q", id, l.Evidence, word)
		}
	}
	for _, l := range p.Layers {
		t.Logf("%-18s %-8s %-60s %s", l.ID, l.State, l.Mechanism, l.Evidence)
	}
	if l := p.Layer(sandbox.KernelSurface); l.State != sandbox.Partial || l.Code != "shared-kernel" || !strings.Contains(l.Remedy, "gVisor") {
		t.Errorf("the kernel is shared, and the posture says %+v", l)
	}
	if p.Digest() != other.Posture().Digest() {
		t.Error("two instances of one base have different digests")
	}
	if !strings.Contains(p.Identity, "python 3.") {
		t.Errorf("identity %q", p.Identity)
	}
}

// TestDigestOfLimits: an instance with another limit has another digest, because
// what its mechanisms say was read back.
func TestDigestOfLimits(t *testing.T) {
	needWhole(t)
	b := testBackend(t)
	of := func(change func(*sandbox.Limits)) string {
		base := testBase()
		base.Limits = sandbox.DefaultLimits()
		change(&base.Limits)
		i := openInstance(t, b, base)
		for _, l := range i.Posture().Layers {
			if l.Evidence == "" {
				t.Errorf("%s: no evidence", l.ID)
			}
		}
		return i.Posture().Digest()
	}
	plain := of(func(*sandbox.Limits) {})
	for name, change := range map[string]func(*sandbox.Limits){
		"memory":        func(l *sandbox.Limits) { l.Memory = 512 << 20 },
		"processes":     func(l *sandbox.Limits) { l.Processes = 100 },
		"cpus":          func(l *sandbox.Limits) { l.MilliCPU = 1000 },
		"open files":    func(l *sandbox.Limits) { l.OpenFiles = 200 },
		"file size":     func(l *sandbox.Limits) { l.FileSize = 100 << 20 },
		"workspace":     func(l *sandbox.Limits) { l.Workspace = 100 << 20 },
		"output kept":   func(l *sandbox.Limits) { l.OutputKept = 1000 },
		"output logged": func(l *sandbox.Limits) { l.OutputLogged = 1 << 20 },
	} {
		if of(change) == plain {
			t.Errorf("another limit of %s, and the digest is the same", name)
		}
	}
}
