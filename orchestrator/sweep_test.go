package orchestrator

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"brig/orchestrator/owner"
	"brig/orchestrator/sandbox"
	. "brig/orchestrator/sandbox/sandboxtest"
)

func TestSweepTakesOnlyWhatIsDead(t *testing.T) {
	rig := newRig(t)
	own := rig.options.Owner
	alive, err := owner.Open(rig.options.Paths.State)
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Close()
	dead := strings.Repeat("0", 31) + "1"
	homes := filepath.Join(rig.options.Paths.Data, homesDir)
	mine := func(id string) string { return homeName(own.ID(), id) }
	made := map[string]bool{ // stays?
		mine(dead + "-1"): false, mine(dead + "-2"): true, mine(alive.Token() + "-1"): true, mine(own.Token() + "-9"): true,
		// Another installation's, whose brig cannot be seen from here, lives perhaps.
		homeName(strings.Repeat("f", 32), dead+"-1"): true, dead + "-1": true, mine("somebody-else"): true, "somebody-else": true, "plain": true,
	}
	for name := range made {
		if err := os.MkdirAll(filepath.Join(homes, name, filesDir, "deep"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(homes, mine(dead+"-2"), keepFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{dead + "-1", alive.Token() + "-1", own.Token() + "-1"} {
		rig.docker.AddLeftover(own.ID(), sandbox.InstanceID(id))
	}
	rig.docker.AddLeftover("another owner", sandbox.InstanceID(dead+"-7"))

	swept, err := rig.Sweep(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if swept.Sessions != 1 || len(swept.Instances) != 1 || swept.Instances[sandbox.Docker] != 1 {
		t.Errorf("swept %+v, want one directory and one instance", swept)
	}
	for name, stays := range made {
		if _, err := os.Stat(filepath.Join(homes, name)); (err == nil) != stays {
			t.Errorf("%s: %v, want it to stay: %v", name, err, stays)
		}
	}
	none := func(sandbox.InstanceID) bool { return false }
	if n, _ := rig.docker.Sweep(t.Context(), own.ID(), none); n != 2 {
		t.Errorf("%d instances were kept, want those of the two that live", n)
	}
	if n, _ := rig.docker.Sweep(t.Context(), "another owner", none); n != 1 {
		t.Errorf("%d instances of another owner were kept, want 1", n)
	}
}

// The first session sweeps beside itself; Close waits for that.
func TestFirstOpenSweeps(t *testing.T) {
	CheckGoroutines(t)
	rig := newRig(t)
	dead := strings.Repeat("0", 32)
	stale := filepath.Join(rig.options.Paths.Data, homesDir, homeName(rig.options.Owner.ID(), dead+"-1"))
	if err := os.MkdirAll(stale, 0o700); err != nil {
		t.Fatal(err)
	}
	rig.docker.AddLeftover(rig.options.Owner.ID(), sandbox.InstanceID(dead+"-1"))
	rig.open(t, SessionOptions{})
	if err := rig.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(stale); err == nil {
		t.Error("the stale directory is left")
	}
	if n, _ := rig.docker.Sweep(t.Context(), rig.options.Owner.ID(), func(sandbox.InstanceID) bool { return false }); n != 0 {
		t.Errorf("%d stale instances are left", n)
	}
}

// Code may lock its own directories; the workspace goes nevertheless, and what a
// link points at stays.
func TestRemoveTreeOpensUp(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	locked := filepath.Join(dir, "home", "a", "b")
	if err := os.MkdirAll(locked, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(locked, "f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	precious := filepath.Join(outside, "precious")
	if err := os.WriteFile(precious, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "home", "link")); err != nil && runtime.GOOS != "windows" {
		t.Fatal(err)
	}
	before, err := os.Stat(outside)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{locked, filepath.Dir(locked)} {
		if err := os.Chmod(d, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := removeTree(filepath.Join(dir, "home")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "home")); err == nil {
		t.Error("the directory is left")
	}
	if after, err := os.Stat(outside); err != nil || after.Mode() != before.Mode() {
		t.Errorf("what a link points at was touched: %v", err)
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
}

func TestAcknowledgementIsOfThisMachine(t *testing.T) {
	rig := newRig(t)
	p := rig.options.Paths
	if Acknowledged(p) {
		t.Fatal("acknowledged before anybody did")
	}
	if err := Acknowledge(p); err != nil {
		t.Fatal(err)
	}
	if !Acknowledged(p) {
		t.Error("not acknowledged after somebody did")
	}
	path := AcknowledgedFile(p)
	if err := os.WriteFile(path, []byte("another-machine\n2026-01-01T00:00:00Z\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if Acknowledged(p) {
		t.Error("another machine's acceptance counts here")
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if Acknowledged(p) {
		t.Error("an empty file counts as acceptance")
	}
}
