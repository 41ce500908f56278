package orchestrator

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"brig/orchestrator/config"
	"brig/orchestrator/owner"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/sandbox/sandboxtest"
	"brig/orchestrator/store"
)

// house is where several brigs of one owner live, one after the other or at once.
type house struct {
	paths config.Paths
	first *sandboxtest.Memory // the engine's view of its first brig
}

// brig is one process of a house.
type brig struct {
	*Orchestrator
	house  *house
	own    *owner.Owner
	store  *store.Store
	docker *sandboxtest.Memory
	gone   bool
}

func newHouse(t testing.TB) *house {
	t.Helper()
	dir := t.TempDir()
	return &house{paths: config.Paths{State: filepath.Join(dir, "state"), Data: filepath.Join(dir, "data")}}
}

// keepOn is the configuration of a brig that keeps sessions.
func keepOn(o *Options) { o.Config.Orchestrator.KeepSessions = true }

// keepOff is the configuration of one that does not.
func keepOff(o *Options) { o.Config.Orchestrator.KeepSessions = false }

// leased makes the lease of kept instances another one.
func (b *brig) leased(d time.Duration) *brig {
	b.lease = d
	return b
}

// start starts another brig; edit may change its options.
func (h *house) start(t testing.TB, edit ...func(*Options)) *brig {
	t.Helper()
	own, err := owner.Open(h.paths.State)
	if err != nil {
		t.Fatal(err)
	}
	if h.first == nil {
		o := pretended(sandbox.Docker)
		o.Owner = own.ID()
		h.first = sandboxtest.NewMemory(o)
	}
	b := &brig{house: h, own: own, docker: h.first.Successor()}
	options := Options{
		Config: config.Default(), Owner: own, Paths: h.paths,
		Backends: []sandbox.Backend{b.docker, hidden{sandboxtest.NewMemory(pretended(sandbox.Host))}},
	}
	var report store.Report
	b.store, report, err = store.Open(t.Context(), store.Options{Dir: h.paths.State, Owner: own.ID(), Process: own.Token()})
	if err != nil || report.Aside != "" {
		t.Fatalf("%v, %+v", err, report)
	}
	options.Store = b.store
	for _, f := range edit {
		f(&options)
	}
	if b.Orchestrator, err = New(options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.end(t) })
	return b
}

// hidden is a backend whose instances end with brig, as those of the host do.
type hidden struct{ sandbox.Backend }

// end ends a brig as a person would.
func (b *brig) end(t testing.TB) {
	t.Helper()
	if b.gone {
		return
	}
	b.gone = true
	if err := errors.Join(b.Close(context.Background()), b.store.Close(), b.own.Close()); err != nil {
		t.Errorf("end a brig: %v", err)
	}
}

// crash ends it as a kill would, as far as anybody else can tell: its connections
// and its locks are gone, and it writes nothing any more.
func (b *brig) crash(t testing.TB) {
	t.Helper()
	b.gone = true
	if err := errors.Join(b.store.Close(), b.own.Close()); err != nil {
		t.Error(err)
	}
	b.docker.Crash()
}

func (b *brig) open(t testing.TB, so SessionOptions) *Session {
	t.Helper()
	s, err := b.Open(context.Background(), so)
	if err != nil {
		t.Fatalf("open a session: %v", err)
	}
	return s
}

// adopt takes over what there is and wants no error.
func (b *brig) adopt(t testing.TB) map[string]*Session {
	t.Helper()
	sessions, errs := b.Adopt(t.Context())
	for _, err := range errs {
		t.Errorf("adopt: %v", err)
	}
	return byName(sessions)
}

func byName(sessions []*Session) map[string]*Session {
	out := map[string]*Session{}
	for _, s := range sessions {
		out[s.spec.claim.Session] = s
	}
	return out
}

func (b *brig) rows(t testing.TB) map[string]store.Session {
	t.Helper()
	rows, err := b.store.Sessions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]store.Session{}
	for _, row := range rows {
		out[row.Name] = row
	}
	return out
}

func (h *house) homes(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(h.paths.Data, homesDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return len(entries)
}

// empty wants nothing to be left of any session.
func (b *brig) empty(t testing.TB) {
	t.Helper()
	if n := b.docker.Instances(); n != 0 {
		t.Errorf("%d instances are left", n)
	}
	if rows := b.rows(t); len(rows) != 0 {
		t.Errorf("rows are left: %+v", rows)
	}
	if n := b.house.homes(t); n != 0 {
		t.Errorf("%d session directories are left", n)
	}
}
