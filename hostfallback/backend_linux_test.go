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
	for _, id := range []sandbox.LayerID{
		sandbox.FSWrite, sandbox.NetOutbound, sandbox.UnixSockets, sandbox.NoNewPrivs, sandbox.Capabilities,
		sandbox.SyscallFilter, sandbox.Signals, sandbox.Ptrace, sandbox.KernelSurface,
	} {
		if p.Layer(id).Evidence == "" {
			t.Errorf("%s was not looked at from inside", id)
		}
	}
	if p.Digest() != other.Posture().Digest() {
		t.Error("two instances of one base have different digests")
	}
	if !strings.Contains(p.Identity, "python 3.") {
		t.Errorf("identity %q", p.Identity)
	}
}
