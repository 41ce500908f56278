package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"brig/orchestrator/sandbox"
	. "brig/orchestrator/sandbox/sandboxtest"
	"brig/orchestrator/store"
	"brig/orchestrator/wire"
)

// wantShown runs a program that shows the variable n and reads the file f.
func wantShown(t *testing.T, s *Session, n int) {
	t.Helper()
	r, out := run(t, s, RunRequest{}, Show("n"), ReadFile("f"))
	want(t, r, sandbox.OK, wire.StateKept)
	if want := fmt.Sprintf("%d\ntext", n); strings.TrimSpace(out) != want {
		t.Errorf("shown %q, want %q", out, want)
	}
}

func TestKeptSessionsGoOn(t *testing.T) {
	h := newHouse(t)
	first := h.start(t, keepOn)
	own := t.TempDir()
	for n, so := range []SessionOptions{
		{Name: "a", Timezone: "Europe/Berlin", Locale: "de_DE.UTF-8"}, {Name: "b", Workspace: own}, {Name: "c", Base: &sandbox.Base{Network: sandbox.NetworkDeny, Limits: sandbox.Limits{Processes: 17}}},
	} {
		s := first.open(t, so)
		run(t, s, RunRequest{}, Set("n", int64(n)), WriteFile("f", "text"))
	}
	closed := first.open(t, SessionOptions{Name: "closed"})
	shut(t, closed)
	first.end(t)
	if n := h.first.Instances(); n != 3 {
		t.Fatalf("%d instances are left for the next brig", n)
	}

	next := h.start(t, keepOn)
	got := next.adopt(t)
	if len(got) != 3 {
		t.Fatalf("adopted %d sessions", len(got))
	}
	for n, name := range []string{"a", "b", "c"} {
		s := got[name]
		if s.State() != StateIdle || s.Note() != "" || s.Resolution().Resolved != sandbox.Docker {
			t.Errorf("%s is %s, note %q, %+v", name, s.State(), s.Note(), s.Resolution())
		}
		wantShown(t, s, n)
		if entries, _, err := s.Workspace().List("", 10); err != nil || len(entries) == 0 {
			t.Errorf("%s: files %v, %v", name, entries, err)
		}
	}
	if c := got["a"].spec.claim; c.Timezone != "Europe/Berlin" || c.Locale != "de_DE.UTF-8" {
		t.Errorf("%+v", c)
	}
	if s := got["c"]; s.spec.base.Limits.Processes != 17 || s.spec.base.Lease != 0 {
		t.Errorf("%+v", s.spec.base)
	}
	for _, s := range got {
		shut(t, s)
	}
	next.empty(t)
	if _, err := os.Stat(filepath.Join(own, "f")); err != nil {
		t.Errorf("somebody's own workspace: %v", err)
	}
}

// A brig that ends ends what runs, and keeps the variables.
func TestEndDuringARun(t *testing.T) {
	h := newHouse(t)
	first := h.start(t, keepOn)
	s := first.open(t, SessionOptions{Name: "a"})
	run(t, s, RunRequest{}, Set("n", 7), WriteFile("f", "text"))
	a := start(t.Context(), s, RunRequest{}, Spin())
	<-a.began
	first.end(t)
	r := a.wait(t)
	want(t, r, sandbox.Cancelled, wire.StateKept)
	if !strings.Contains(r.Detail, "keeps the session") {
		t.Errorf("%q", r.Detail)
	}
	next := h.start(t, keepOn).adopt(t)
	if got := next["a"]; got.Note() != "" { // its end was seen
		t.Errorf("note %q", got.Note())
	}
	wantShown(t, next["a"], 7)
}

func TestCrashDuringARun(t *testing.T) {
	h := newHouse(t)
	first := h.start(t, keepOn)
	s := first.open(t, SessionOptions{Name: "a"})
	run(t, s, RunRequest{}, Set("n", 7), WriteFile("f", "text"))
	a := start(t.Context(), s, RunRequest{}, Spin())
	<-a.began
	first.crash(t)
	lost := a.wait(t)

	next := h.start(t, keepOn)
	got := next.adopt(t)["a"]
	for _, said := range []string{got.Note(), next.rows(t)["a"].Note} {
		if !strings.Contains(said, string(lost.Run)) || !strings.Contains(said, string(sandbox.BackendLost)) {
			t.Errorf("note %q", said)
		}
	}
	wantShown(t, got, 7)
	shut(t, got)
	next.empty(t)
}

// What is gone leaves the session its files and a reason.
func TestInstanceGone(t *testing.T) {
	h := newHouse(t)
	first := h.start(t, keepOn)
	s := first.open(t, SessionOptions{Name: "a"})
	run(t, s, RunRequest{}, Set("n", 7), WriteFile("f", "text"))
	onHost := first.open(t, SessionOptions{Name: "b", Backend: sandbox.Host})
	run(t, onHost, RunRequest{}, Set("n", 8), WriteFile("f", "text"))
	start(t.Context(), onHost, RunRequest{}, Print("x")).wait(t)
	id := s.latest().instance.ID()
	first.crash(t)
	h.first.Lose(id, sandbox.Ending{Cause: sandbox.Killed})

	next := h.start(t, keepOn)
	got := next.adopt(t)
	for name, kind := range map[string]sandbox.Kind{"a": sandbox.Docker, "b": sandbox.Host} {
		s := got[name]
		if s.State() != StateLost {
			t.Errorf("%s is %s", name, s.State())
		}
		if _, err := s.Variables(t.Context()); !errors.Is(err, ErrNoInterpreter) {
			t.Errorf("%s: variables: %v", name, err)
		}
		if row := next.rows(t)[name]; row.State != store.Lost || row.Note == "" || row.Process != next.own.Token() {
			t.Errorf("%s: %+v", name, row)
		}
		r, out := run(t, s, RunRequest{}, ReadFile("f"))
		want(t, r, sandbox.OK, wire.StateLost)
		if out != "text" && out != "text\n" || !strings.Contains(r.Detail, "earlier variables are gone: brig was started anew") || r.Stamp.Backend != kind {
			t.Errorf("%s: %q, %+v", name, out, r)
		}
		if row := next.rows(t)[name]; row.State != store.Idle || row.Instance == nil || row.Note != "" {
			t.Errorf("%s with a fresh instance: %+v", name, row)
		}
	}
}

// worse is a backend whose instances turn out less contained than they were.
type worse struct{ *Memory }

type exposedInstance struct{ sandbox.Keepable }

func (w worse) Adopt(ctx context.Context, a sandbox.Adoption) (sandbox.Instance, error) {
	i, err := w.Memory.Adopt(ctx, a)
	if err != nil {
		return nil, err
	}
	return exposedInstance{i.(sandbox.Keepable)}, nil
}

func (i exposedInstance) Posture() sandbox.Posture {
	p := i.Keepable.Posture()
	p.Layers = EnforcedLayers(sandbox.FSWrite, sandbox.FSRead, sandbox.SyscallFilter)
	return p
}

// What lives and may not is ended, and said.
func TestUnfitInstancesAreEnded(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*Options)
		says string
	}{
		"less contained":  {func(o *Options) { o.Backends[0] = worse{o.Backends[0].(*Memory)} }, "neither files nor system calls"},
		"other limits":    {func(o *Options) { o.Config.Limits.Memory = 64 << 20 }, "settings that it was started with have changed"},
		"other backend":   {func(o *Options) { o.Config.Execution.Backend = sandbox.Host }, "the settings lead to the host sandbox"},
		"code is off":     {func(o *Options) { o.Config.Workspace.CodeExec = false }, "workspace.code_exec"},
		"no such backend": {func(o *Options) { o.Backends = o.Backends[1:] }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			first := h.start(t, keepOn)
			s := first.open(t, SessionOptions{Name: "a"})
			run(t, s, RunRequest{}, WriteFile("f", "text"))
			first.end(t)
			if h.first.Instances() != 1 {
				t.Fatal("control: there is no instance")
			}
			next := h.start(t, keepOn, c.edit)
			sessions, errs := next.Adopt(t.Context())
			if len(sessions) != 1 || sessions[0].State() != StateLost {
				t.Fatalf("%d sessions, %v", len(sessions), errs)
			}
			if c.says == "" { // nobody can reach it here; a sweep of one who can, or its lease, ends it
				return
			}
			if n := h.first.Instances(); n != 0 {
				t.Errorf("%d instances are left", n)
			}
			if len(errs) != 1 || !strings.Contains(errs[0].Error(), c.says) {
				t.Errorf("%v", errs)
			}
			if _, err := os.Stat(filepath.Join(sessions[0].home.workspace, "f")); err != nil {
				t.Error(err)
			}
		})
	}
}

// An engine that does not answer now costs nothing: the next run tries again.
func TestUnreachableIsTriedAgain(t *testing.T) {
	h := newHouse(t)
	first := h.start(t, keepOn, func(o *Options) { o.Config.Execution.Fallback = "none" })
	s := first.open(t, SessionOptions{Name: "a"})
	run(t, s, RunRequest{}, Set("n", 7), WriteFile("f", "text"))
	first.end(t)
	for _, fallback := range []sandbox.Kind{sandbox.Host, "none"} {
		next := h.start(t, keepOn, func(o *Options) { o.Config.Execution.Fallback = fallback })
		next.docker.SetUnavailable(&sandbox.Unavailable{Backend: sandbox.Docker, Code: "engine-absent", Reason: "it is not there"})
		sessions, errs := next.Adopt(t.Context())
		if len(sessions) != 1 || len(errs) != 1 || sessions[0].State() != StateLost {
			t.Fatalf("%v, %v", sessions, errs)
		}
		s := sessions[0]
		if _, err := s.Run(t.Context(), RunRequest{Source: Program{Print("x")}.Source()}, nil); err == nil || !strings.Contains(err.Error(), "it is not there") {
			t.Errorf("run beside an instance that may live: %v", err)
		} else if held := (*HeldError)(nil); !errors.As(err, &held) || held.Within <= 0 || held.Within > time.Hour {
			t.Errorf("run beside an instance that may live: %#v", err)
		}
		if row := next.rows(t)["a"]; row.Instance == nil {
			t.Errorf("%+v", row)
		}
		next.docker.SetUnavailable(nil)
		next.forget(sandbox.Docker, next.base(sandbox.Docker, wish{}))
		wantShown(t, s, 7)
		next.end(t)
	}
	next := h.start(t, keepOn)
	next.docker.SetUnavailable(&sandbox.Unavailable{Backend: sandbox.Docker, Code: "engine-absent", Reason: "it is not there"})
	sessions, _ := next.Adopt(t.Context())
	next.docker.SetUnavailable(nil)
	shut(t, sessions[0]) // one that was never taken up ends as well
	next.empty(t)
}

// The connection goes, the instance lives: it is the same one afterwards.
func TestLostConnectionIsTakenUpAgain(t *testing.T) {
	h := newHouse(t)
	b := h.start(t, keepOn)
	s := b.open(t, SessionOptions{Name: "a"})
	run(t, s, RunRequest{}, Set("n", 7), WriteFile("f", "text"))
	before := s.latest().instance.ID()
	for _, running := range []bool{false, true} {
		if running {
			a := start(t.Context(), s, RunRequest{}, Spin())
			<-a.began
			b.docker.Crash()
			want(t, a.wait(t), sandbox.BackendLost, wire.StateLost)
		} else {
			b.docker.Crash()
		}
		wantShown(t, s, 7)
		if after := s.latest().instance.ID(); after != before {
			t.Errorf("instance %s, before %s", after, before)
		}
	}
	b.docker.Crash()
	b.docker.Lose(before, sandbox.Ending{Cause: sandbox.Killed}) // and now it is gone
	r, _ := run(t, s, RunRequest{}, ReadFile("f"))
	want(t, r, sandbox.OK, wire.StateLost)
	shut(t, s)
	b.empty(t)
}

func TestOneBrigGetsEach(t *testing.T) {
	h := newHouse(t)
	first := h.start(t, keepOn)
	const sessions, brigs = 4, 3
	for n := range sessions {
		first.open(t, SessionOptions{Name: fmt.Sprint(n)})
	}
	first.crash(t)
	var mu sync.Mutex
	got := map[string]int{}
	var wg sync.WaitGroup
	for range brigs {
		b := h.start(t, keepOn)
		wg.Go(func() {
			taken, errs := b.Adopt(context.Background())
			mu.Lock()
			defer mu.Unlock()
			for _, err := range errs {
				t.Error(err)
			}
			for name, s := range byName(taken) {
				got[name]++
				if s.State() != StateIdle {
					t.Errorf("%s is %s", name, s.State())
				}
			}
		})
	}
	wg.Wait()
	for n := range sessions {
		if got[fmt.Sprint(n)] != 1 {
			t.Errorf("session %d was taken over %d times", n, got[fmt.Sprint(n)])
		}
	}
}

func TestLifetimeGoesOn(t *testing.T) {
	h := newHouse(t)
	first := h.start(t, keepOn)
	s := first.open(t, SessionOptions{Name: "a", Lifetime: time.Hour})
	first.open(t, SessionOptions{Name: "b"})
	opened := s.expiry.opened
	first.end(t)
	got := h.start(t, keepOn).adopt(t)
	if e := got["a"].expiry; e.lifetime != time.Hour || e.opened.Sub(opened).Abs() > time.Second {
		t.Errorf("opened %s, before %s, lifetime %s", e.opened, opened, e.lifetime)
	}
	if e := got["b"].expiry; e.lifetime != 0 {
		t.Errorf("%+v", e)
	}
}

// A session whose directory is gone is reported once, and no other one suffers.
func TestFilesAreGone(t *testing.T) {
	h := newHouse(t)
	first := h.start(t, keepOn)
	own := filepath.Join(t.TempDir(), "own")
	if err := os.Mkdir(own, 0o700); err != nil {
		t.Fatal(err)
	}
	a, b := first.open(t, SessionOptions{Name: "a"}), first.open(t, SessionOptions{Name: "b", Workspace: own})
	first.open(t, SessionOptions{Name: "c"})
	first.end(t)
	for _, dir := range []string{a.home.dir, b.home.workspace} {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	next := h.start(t, keepOn)
	sessions, errs := next.Adopt(t.Context())
	if len(sessions) != 1 || len(errs) != 2 {
		t.Errorf("%d sessions, %v", len(sessions), errs)
	}
	rows := next.rows(t)
	if _, there := rows["a"]; there {
		t.Error("a session without files is still recorded")
	}
	if _, there := rows["b"]; !there { // its directory may be on a disk that is not connected now
		t.Error("a session whose files are elsewhere is forgotten")
	}
}
