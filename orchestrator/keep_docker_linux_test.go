package orchestrator

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// A brig is killed in the middle of a run. Two others start at the same time and
// take its sessions over: each of them exactly once, with variables and files.
func TestKilledBrigIsSucceeded(t *testing.T) {
	needEngine(t)
	dir := t.TempDir()
	killedBrig(t, dir, true, 0)
	a, b := nextBrig(t, dir), nextBrig(t, dir)
	if n := len(containers(t, a.own.ID())); n != childSessions {
		t.Fatalf("%d containers have outlived their brig, want %d", n, childSessions)
	}
	var mu sync.Mutex
	got := map[string]*Session{}
	var wg sync.WaitGroup
	for _, next := range []*realBrig{a, b} {
		wg.Go(func() {
			sessions, errs := next.Adopt(context.WithoutCancel(t.Context()))
			mu.Lock()
			defer mu.Unlock()
			for _, err := range errs {
				t.Error(err)
			}
			for name, s := range byName(sessions) {
				if got[name] != nil {
					t.Errorf("%s was taken over twice", name)
				}
				got[name] = s
			}
		})
	}
	wg.Wait()
	if len(got) != childSessions {
		t.Fatalf("%d sessions were taken over", len(got))
	}
	for _, next := range []*realBrig{a, b} { // neither takes anything away from the other
		if _, err := next.Sweep(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for n := range childSessions {
		s := got[fmt.Sprint("s", n)]
		if s.State() != StateIdle || len(s.Posture().Weakened()) > 0 && !s.Resolution().Weakened {
			t.Errorf("s%d is %s, %+v", n, s.State(), s.Resolution())
		}
		r, out, err := pythonResult(t.Context(), s, "print(x, open('f').read())")
		if err != nil || r.Cause != sandbox.OK || r.State != wire.StateKept || out != fmt.Sprintf("%d file %d\n", n, n) {
			t.Errorf("s%d: %q, %+v, %v", n, out, r, err)
		}
		if r.Stamp.Session != fmt.Sprint("s", n) || r.Stamp.Backend != sandbox.Docker || r.Stamp.PostureDigest == "" {
			t.Errorf("s%d: %+v", n, r.Stamp)
		}
		if text, err := os.ReadFile(filepath.Join(s.home.workspace, "f")); err != nil || string(text) != fmt.Sprint("file ", n) {
			t.Errorf("s%d: %q, %v", n, text, err)
		}
	}
	ran := got[fmt.Sprint("s", childSessions-1)]
	if note := ran.Note(); !strings.Contains(note, "was under way") || !strings.Contains(note, string(sandbox.BackendLost)) {
		t.Errorf("note %q", note)
	}
	if out, err := python(t.Context(), ran, "print(y)"); err != nil || out != "1\n" { // what the cut run had done stays
		t.Errorf("%q, %v", out, err)
	}
	for _, s := range got {
		shut(t, s)
	}
	noContainers(t, a.own.ID(), 10*time.Second)
	if entries, err := os.ReadDir(filepath.Join(dir, "data", homesDir)); err != nil || len(entries) != 0 {
		t.Errorf("session directories are left: %v, %v", entries, err)
	}
}

// An end in order keeps sessions as a crash does, again and again.
func TestKeptThroughSeveralEnds(t *testing.T) {
	needEngine(t)
	dir := t.TempDir()
	first, err := openBrig(t.Context(), dir, true)
	if err != nil {
		t.Fatal(err)
	}
	s, err := first.Open(t.Context(), SessionOptions{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	id := first.own.ID()
	if _, err := python(t.Context(), s, "x = 0"); err != nil {
		t.Fatal(err)
	}
	if err := first.end(); err != nil {
		t.Error(err)
	}
	for n := range 3 {
		next, err := openBrig(t.Context(), dir, true)
		if err != nil {
			t.Fatal(err)
		}
		sessions, errs := next.Adopt(t.Context())
		if len(sessions) != 1 || len(errs) != 0 {
			t.Fatalf("%v, %v", sessions, errs)
		}
		if out, err := python(t.Context(), sessions[0], "x += 1\nprint(x)"); err != nil || out != fmt.Sprintln(n+1) {
			t.Errorf("%q, %v", out, err)
		}
		if n == 2 {
			shut(t, sessions[0])
		}
		if err := next.end(); err != nil {
			t.Error(err)
		}
	}
	noContainers(t, id, 10*time.Second)
}

// Without the setting nothing outlives a killed brig, and nobody has to clean up the engine.
func TestNothingOutlivesAKilledBrig(t *testing.T) {
	needEngine(t)
	dir := t.TempDir()
	killedBrig(t, dir, false, 0)
	next := nextBrig(t, dir)
	noContainers(t, next.own.ID(), 20*time.Second)
	if sessions, errs := next.Adopt(t.Context()); len(sessions) != 0 || len(errs) != 0 {
		t.Errorf("%v, %v", sessions, errs)
	}
	if _, err := next.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(filepath.Join(dir, "data", homesDir)); err != nil || len(entries) != 0 {
		t.Errorf("session directories are left: %v, %v", entries, err)
	}
	if rows, err := next.options.Store.Sessions(t.Context()); err != nil || len(rows) != 0 {
		t.Errorf("%+v, %v", rows, err)
	}
}

// Nobody comes back: the containers end by themselves, and the files wait. Whoever
// comes after all removes what the engine still shows of them.
func TestLeaseEnds(t *testing.T) {
	needEngine(t)
	dir := t.TempDir()
	killedBrig(t, dir, true, 4*time.Second)
	next := nextBrig(t, dir)
	noContainers(t, next.own.ID(), 45*time.Second, "--filter", "status=running")
	sessions, errs := next.Adopt(t.Context())
	if len(sessions) != childSessions || len(errs) != 0 {
		t.Fatalf("%v, %v", sessions, errs)
	}
	noContainers(t, next.own.ID(), 10*time.Second)
	s := byName(sessions)["s0"]
	if s.State() != StateLost {
		t.Errorf("session is %s", s.State())
	}
	r, out, err := pythonResult(t.Context(), s, "print('x' in globals(), open('f').read())")
	if err != nil || r.Cause != sandbox.OK || r.State != wire.StateLost || out != "False file 0\n" || !strings.Contains(r.Detail, "earlier variables are gone") {
		t.Errorf("%q, %+v, %v", out, r, err)
	}
	for _, s := range sessions {
		shut(t, s)
	}
}

// A copied state directory that became another installation's adopts nothing and
// sweeps nothing of the one that it was copied from.
func TestCopiedStateAdoptsNothing(t *testing.T) {
	needEngine(t)
	dir, copied := t.TempDir(), t.TempDir()
	killedBrig(t, dir, true, 0)
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", filepath.Join(dir, "state"), copied).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.Remove(filepath.Join(copied, "state", "owner")); err != nil {
		t.Fatal(err)
	}
	other := nextBrig(t, copied)
	if sessions, errs := other.Adopt(t.Context()); len(sessions) != 0 || len(errs) != 0 {
		t.Errorf("%v, %v", sessions, errs)
	}
	if _, err := other.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	rightful := nextBrig(t, dir)
	if rightful.own.ID() == other.own.ID() {
		t.Fatal("control: it is the same installation")
	}
	sessions, errs := rightful.Adopt(t.Context())
	if len(sessions) != childSessions || len(errs) != 0 {
		t.Fatalf("%v, %v", sessions, errs)
	}
	for _, s := range sessions {
		if s.State() != StateIdle {
			t.Errorf("%s is %s", s.spec.claim.Session, s.State())
		}
		shut(t, s)
	}
	noContainers(t, rightful.own.ID(), 10*time.Second)
}
