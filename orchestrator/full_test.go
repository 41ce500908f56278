package orchestrator

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"brig/orchestrator/sandbox"
	. "brig/orchestrator/sandbox/sandboxtest"
	"brig/orchestrator/wire"
)

// Nobody is sent to a workspace that goes with its only run.
func TestDiskFullOfOneRun(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Config.Limits.Workspace = 1 << 20 })
	for name, c := range map[string]struct {
		options SessionOptions
		hint    bool
	}{
		"goes":         {SessionOptions{}, false},
		"is kept":      {SessionOptions{Keep: true}, true},
		"is another's": {SessionOptions{Workspace: t.TempDir()}, true},
	} {
		s := r.open(t, c.options)
		a := start(t.Context(), s, RunRequest{Once: true}, WaitFile("never"))
		<-a.began
		must(t, os.WriteFile(filepath.Join(s.home.workspace, "big"), make([]byte, 2<<20), 0o600))
		r.docker.Lose(s.latest().instance.ID(), sandbox.Ending{Cause: sandbox.DiskOut, Detail: "the workspace held too much"})
		if got := a.wait(t); got.Cause != sandbox.DiskOut || strings.Contains(got.Detail, "delete files in") != c.hint {
			t.Errorf("a workspace that %s: cause %s (%s)", name, got.Cause, got.Detail)
		}
	}
}

// A session whose instance ended over the disk limit goes on in a fresh one, and
// says that the workspace is full, and how to change that, until it is not.
func TestDiskFull(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Config.Limits.Workspace = 1 << 20 })
	s := r.open(t, SessionOptions{})
	const says = "the workspace holds 2 MiB, its limit is 1 MiB: delete files in "
	fill := func() {
		must(t, os.WriteFile(filepath.Join(s.home.workspace, "big"), make([]byte, 2<<20), 0o600))
	}
	lose := func() {
		r.docker.Lose(s.latest().instance.ID(), sandbox.Ending{Cause: sandbox.DiskOut, Detail: "the workspace held too much"})
	}
	a := start(t.Context(), s, RunRequest{}, WaitFile("never"))
	<-a.began
	fill()
	lose()
	if got := a.wait(t); got.Cause != sandbox.DiskOut || !strings.Contains(got.Detail, says+s.home.workspace) {
		t.Errorf("cause %s (%s)", got.Cause, got.Detail)
	}
	got, _ := run(t, s, RunRequest{}, Print("x"))
	want(t, got, sandbox.OK, wire.StateLost)
	if !strings.Contains(got.Detail, says) || !strings.Contains(got.Detail, "earlier variables are gone") {
		t.Errorf("the next run says %q", got.Detail)
	}
	must(t, s.Workspace().Remove("big"))
	got, _ = run(t, s, RunRequest{}, Print("x"))
	want(t, got, sandbox.OK, wire.StateKept)
	if got.Detail != "" {
		t.Errorf("with room again it says %q", got.Detail)
	}
	// The same when nothing ran.
	fill()
	lose()
	if got, _ := run(t, s, RunRequest{}, Print("x")); !strings.Contains(got.Detail, says) || got.Cause != sandbox.OK {
		t.Errorf("cause %s (%s)", got.Cause, got.Detail)
	}
}
