package orchestrator

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"brig/orchestrator/sandbox"
)

// slowAdopter holds an adoption until its context ends.
type slowAdopter struct {
	sandbox.Backend
	begun chan struct{}
}

func (w slowAdopter) Adopt(ctx context.Context, _ sandbox.Adoption) (sandbox.Instance, error) {
	close(w.begun)
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// A brig that ends while it takes a session over leaves that as it found it.
func TestCloseDuringAdoption(t *testing.T) {
	h := newHouse(t)
	first := h.start(t, keepOn)
	s := first.open(t, SessionOptions{Name: "a"})
	file := filepath.Join(s.home.workspace, "precious")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	first.crash(t)

	begun := make(chan struct{})
	second := h.start(t, keepOn, func(o *Options) { o.Backends[0] = slowAdopter{o.Backends[0], begun} })
	adopted := make(chan struct{})
	go func() {
		defer close(adopted)
		second.Adopt(context.Background())
	}()
	<-begun
	if err := second.Close(t.Context()); err != nil {
		t.Error(err)
	}
	<-adopted
	second.gone = true
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	if rows := second.rows(t); len(rows) != 1 {
		t.Errorf("rows: %+v", rows)
	}
	if n := second.docker.Instances(); n != 1 {
		t.Errorf("%d instances live", n)
	}
}
