package orchestrator

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"brig/orchestrator/sandbox"
	. "brig/orchestrator/sandbox/sandboxtest"
	"brig/orchestrator/store"
)

func TestSessionsAreRecorded(t *testing.T) {
	b := newHouse(t).start(t, keepOff)
	s := b.open(t, SessionOptions{Name: "a"})
	row := b.rows(t)["a"]
	if row.State != store.Idle || row.Kept || row.Process != b.own.Token() || row.Workspace != s.home.workspace || row.Home != s.home.dir ||
		row.Instance == nil || row.Instance.ID != s.latest().instance.ID() || row.Instance.Handle != (sandbox.Handle{}) || row.Instance.Base.Lease != 0 {
		t.Errorf("%+v, %+v", row, row.Instance)
	}
	a := start(t.Context(), s, RunRequest{}, Spin())
	<-a.began
	running := b.rows(t)["a"]
	if running.State != store.Running || running.Run == "" {
		t.Errorf("during a run: %+v", running)
	}
	if err := s.Interrupt(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := a.wait(t); r.Run != running.Run {
		t.Errorf("run %s, recorded %s", r.Run, running.Run)
	}
	if row := b.rows(t)["a"]; row.State != store.Idle || row.Run != "" {
		t.Errorf("after a run: %+v", row)
	}
	run(t, s, RunRequest{Once: true}, Print("x"))
	run(t, s, RunRequest{}, Print("x"))
	if again := b.rows(t)["a"]; again.Instance == nil || again.Instance.ID == row.Instance.ID {
		t.Errorf("after a fresh instance: %+v", again)
	}
	shut(t, s)
	b.empty(t)
}

func TestNamesAreUnique(t *testing.T) {
	h := newHouse(t)
	b, other := h.start(t, keepOn), h.start(t, keepOff)
	s := b.open(t, SessionOptions{Name: "a"})
	for _, o := range []*brig{b, other} {
		if _, err := o.Open(t.Context(), SessionOptions{Name: "a"}); !errors.Is(err, ErrNameTaken) {
			t.Errorf("%v", err)
		}
	}
	if n := h.homes(t); n != 1 {
		t.Errorf("%d directories, want that of the one session", n)
	}
	shut(t, s)
	shut(t, b.open(t, SessionOptions{Name: "a"}))

	// The name of a session that ended with its brig is free, that of a kept one is not.
	b.open(t, SessionOptions{Name: "kept"})
	other.open(t, SessionOptions{Name: "not kept"})
	b.crash(t)
	other.crash(t)
	next := h.start(t)
	shut(t, next.open(t, SessionOptions{Name: "not kept"}))
	if _, err := next.Open(t.Context(), SessionOptions{Name: "kept"}); !errors.Is(err, ErrNameTaken) {
		t.Errorf("%v", err)
	}
}

// Without the setting a crash leaves nothing behind that a sweep does not take.
func TestNotKept(t *testing.T) {
	h := newHouse(t)
	first := h.start(t, keepOff)
	s := first.open(t, SessionOptions{Name: "a"})
	run(t, s, RunRequest{}, WriteFile("f", "text"))
	first.crash(t)
	next := h.start(t, keepOn)
	if got := next.adopt(t); len(got) != 0 {
		t.Errorf("adopted %v", got)
	}
	if _, err := next.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	next.empty(t)

	first = h.start(t, keepOff)
	first.open(t, SessionOptions{Name: "a"})
	first.end(t)
	next.empty(t)
}

// withoutStore is what a command is that does not open it.
func withoutStore(o *Options) { o.Store = nil }

// No sweep takes what can still be taken over, and each takes what cannot.
func TestSweepSparesWhatIsKept(t *testing.T) {
	h := newHouse(t)
	first := h.start(t, keepOn)
	s := first.open(t, SessionOptions{Name: "a"})
	run(t, s, RunRequest{}, Set("n", 7), WriteFile("f", "text"))
	stray := first.open(t, SessionOptions{Name: "stray"})
	first.crash(t)
	with, without := h.start(t, keepOn), h.start(t, withoutStore)
	if err := with.store.Forget(t.Context(), stray.record.id, first.own.Token()); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]*brig{"without the store": without, "with it": with} {
		if _, err := b.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(s.home.workspace, "f")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := h.first.Instances(); n != 1 {
		t.Errorf("%d instances, want that of the kept session", n)
	}
	if n := h.homes(t); n != 1 {
		t.Errorf("%d directories, want that of the kept session", n)
	}
	third := h.start(t, keepOn)
	got := third.adopt(t)["a"]
	// What another process has taken over is still named after the dead one.
	for _, b := range []*brig{with, without} {
		if _, err := b.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	wantShown(t, got, 7)
	shut(t, got)
	third.empty(t)
	flags := filepath.Join(h.paths.State, flagsDir)
	if _, err := os.Stat(filepath.Join(flags, first.own.Token())); err != nil {
		t.Fatalf("control: %v", err)
	}
	if _, err := third.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(flags, first.own.Token())); err == nil {
		t.Error("the flag of a process of which nothing is left is still there")
	}
}

// When its lease is long over, an instance is swept; its session's files are not.
func TestSweepAfterTheLease(t *testing.T) {
	h := newHouse(t)
	first := h.start(t, keepOn).leased(time.Hour) // of the fake; the record's is what counts
	s := first.open(t, SessionOptions{Name: "a"})
	run(t, s, RunRequest{}, WriteFile("f", "text"))
	id := first.rows(t)["a"].Instance.ID
	first.crash(t)
	next := h.start(t, keepOn)
	if err := next.store.Orphan(t.Context(), id, time.Now().Add(-3*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, err := next.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := h.first.Instances(); n != 0 {
		t.Errorf("%d instances are left", n)
	}
	got := next.adopt(t)["a"]
	if got.State() != StateLost {
		t.Errorf("session is %s", got.State())
	}
	if _, out := run(t, got, RunRequest{}, ReadFile("f")); out != "text" && out != "text\n" {
		t.Errorf("%q", out)
	}
}

// A lost database takes no files with it.
func TestDamagedStoreLosesNoFiles(t *testing.T) {
	h := newHouse(t)
	first := h.start(t, keepOn)
	s := first.open(t, SessionOptions{Name: "a"})
	run(t, s, RunRequest{}, WriteFile("f", "text"))
	first.crash(t)
	if err := os.Remove(filepath.Join(h.paths.State, store.File+"-wal")); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.paths.State, store.File), []byte("this is no database, whatever its name says"), 0o600); err != nil {
		t.Fatal(err)
	}
	damaged, report, err := store.Open(t.Context(), store.Options{Dir: h.paths.State, Owner: first.own.ID(), Process: "x"})
	if err != nil || report.Aside == "" {
		t.Fatalf("%v, %+v", err, report)
	}
	if err := damaged.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second one knows of nothing any more
		next := h.start(t, keepOn)
		if _, err := next.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(s.home.workspace, "f")); err != nil {
			t.Fatal(err)
		}
		if n := h.first.Instances(); n != 0 {
			t.Errorf("%d instances are left", n)
		}
		next.end(t)
	}
}
