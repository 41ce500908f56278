package service_test

import (
	"context"
	"io"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"brig/orchestrator"
	"brig/orchestrator/api"
	"brig/orchestrator/audit"
	"brig/orchestrator/config"
	"brig/orchestrator/owner"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/sandbox/sandboxtest"
	"brig/orchestrator/service"
	"brig/orchestrator/store"
)

// house is where several brigs live, one after the other.
type house struct {
	dir   string
	first *sandboxtest.Memory // the engine's view of its first brig
}

// rig is a living brig over in-memory backends.
type rig struct {
	*service.Service
	orc          *orchestrator.Orchestrator
	docker, host *sandboxtest.Memory
	own          *owner.Owner
	store        *store.Store
	audit        *audit.Log
	closeOnce    sync.Once
}

func pretended(kind sandbox.Kind, owner string) sandboxtest.MemoryOptions {
	return sandboxtest.MemoryOptions{Kind: kind, Layers: sandboxtest.EnforcedLayers(), Promised: orchestrator.CorePromise(), Owner: owner}
}

func newRig(t testing.TB, edit ...func(*config.Config, *service.Options)) *rig {
	t.Helper()
	return (&house{dir: t.TempDir()}).start(t, edit...)
}

func (h *house) start(t testing.TB, edit ...func(*config.Config, *service.Options)) *rig {
	t.Helper()
	paths := config.Paths{State: filepath.Join(h.dir, "state"), Data: filepath.Join(h.dir, "data")}
	own, err := owner.Open(paths.State)
	if err != nil {
		t.Fatal(err)
	}
	if h.first == nil {
		h.first = sandboxtest.NewMemory(pretended(sandbox.Docker, own.ID()))
	}
	r := &rig{own: own, docker: h.first.Successor(), host: sandboxtest.NewMemory(pretended(sandbox.Host, own.ID()))}
	if r.store, _, err = store.Open(t.Context(), store.Options{Dir: paths.State, Owner: own.ID(), Process: own.Token()}); err != nil {
		t.Fatal(err)
	}
	var found audit.Report
	if r.audit, found, err = audit.Open(t.Context(), audit.Options{Dir: filepath.Join(paths.State, "audit")}); err != nil {
		t.Fatal(err)
	}
	c := config.Default()
	o := service.Options{
		Store: r.store, Audit: r.audit, Audited: found, Alive: own.Alive, Log: zerolog.New(io.Discard), Version: "test",
		Backends: []sandbox.Backend{r.docker, r.host},
	}
	for _, f := range edit {
		f(&c, &o)
	}
	r.orc, err = orchestrator.New(orchestrator.Options{Backends: o.Backends, Config: c, Paths: paths, Owner: own, Store: r.store})
	if err != nil {
		t.Fatal(err)
	}
	o.Orchestrator, o.Config = r.orc, func() config.Loaded { return config.Loaded{Config: c} }
	if r.Service, err = service.New(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.end(t) })
	return r
}

// end closes the brig as a person would.
func (r *rig) end(t testing.TB) {
	t.Helper()
	r.closeOnce.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := r.Close(ctx); err != nil {
			t.Errorf("close the service: %v", err)
		}
		if err := r.audit.Close(); err != nil {
			t.Error(err)
		}
		if err := r.store.Close(); err != nil {
			t.Error(err)
		}
		if err := r.own.Close(); err != nil {
			t.Error(err)
		}
	})
}

func (r *rig) operator() api.Brig {
	return r.As(service.Caller{Role: service.Operator, ID: "operator", Via: "test", Approval: api.ApprovedByOperator})
}

func (r *rig) agent(id string) api.Brig {
	return r.As(service.Caller{ID: id, Via: "test", Approval: api.ApprovedByCredential})
}

// program is source for the in-memory interpreter and for Python alike.
func program(steps ...sandboxtest.Step) string { return string(sandboxtest.Program(steps).Source()) }
