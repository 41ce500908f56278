package sandboxtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// memorySuite is a suite around one Memory, for tests of the fake itself.
func memorySuite(t *testing.T, o MemoryOptions) *suite {
	t.Helper()
	CheckGoroutines(t)
	f := memoryFactory()
	return &suite{f: f, t: t, backend: NewMemory(o)}
}

func TestMemoryUnavailable(t *testing.T) {
	absent := &sandbox.Unavailable{Backend: sandbox.Docker, Code: "engine-absent", Reason: "no engine", Remedy: "start it"}
	m := NewMemory(MemoryOptions{Kind: sandbox.Docker, Unavailable: absent})
	_, err := m.Probe(t.Context())
	if got := new(sandbox.Unavailable); !errors.As(err, &got) || got != absent {
		t.Errorf("probe: %v", err)
	}
	if _, err := m.Prepare(t.Context(), sandbox.Base{}, t.TempDir()); !errors.Is(err, absent) {
		t.Errorf("prepare: %v", err)
	}
	m.SetUnavailable(nil)
	facts, err := m.Probe(t.Context())
	if err != nil || facts.Backend != sandbox.Docker {
		t.Errorf("probe of a backend that came back: %+v, %v", facts, err)
	}
}

func TestMemoryLayers(t *testing.T) {
	s := memorySuite(t, MemoryOptions{
		Kind: sandbox.Host, Identity: "python", Layers: EnforcedLayers(sandbox.FSRead),
		Promised: []sandbox.LayerID{sandbox.FSRead, sandbox.FSWrite},
	})
	p := s.own(t).Posture()
	if p.Backend != sandbox.Host || p.Identity != "python" || len(p.Warnings()) != 1 {
		t.Errorf("posture %+v, warnings %q", p, p.Warnings())
	}
}

func TestMemoryPrepareDelay(t *testing.T) {
	m := NewMemory(MemoryOptions{PrepareDelay: ages})
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := m.Prepare(ctx, sandbox.Base{}, t.TempDir()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("prepare: %v", err)
	}
	if m.Instances() != 0 || m.Prepares() != 0 {
		t.Errorf("%d instances, %d prepared", m.Instances(), m.Prepares())
	}
}

func TestMemoryLose(t *testing.T) {
	s := memorySuite(t, MemoryOptions{})
	b := s.own(t)
	m := s.backend.(*Memory)
	want := sandbox.Ending{Cause: sandbox.MemoryOut, Detail: "the kernel killed it"}
	if m.Lose("nobody-1", want) {
		t.Error("lost an instance that is not there")
	}
	if !m.Lose(b.ID(), want) || b.Cause() != want {
		t.Errorf("cause %+v, want %+v", b.Cause(), want)
	}
	if m.Instances() != 0 {
		t.Errorf("%d instances are left", m.Instances())
	}
}

func TestMemorySweep(t *testing.T) {
	m := NewMemory(MemoryOptions{})
	for _, id := range []sandbox.InstanceID{"old-1", "old-2"} {
		m.AddLeftover("me", id)
	}
	keep := func(id sandbox.InstanceID) bool { return id == "old-2" }
	for _, want := range []int{1, 0} {
		if n, err := m.Sweep(t.Context(), "me", keep); n != want || err != nil {
			t.Errorf("removed %d, %v, want %d", n, err, want)
		}
	}
}

// TestMemoryStuck: a runner that obeys no interrupt loses its instance after the
// wire's own patience, and never reports an end.
func TestMemoryStuck(t *testing.T) {
	s := memorySuite(t, MemoryOptions{Stuck: true})
	b := s.own(t)
	ctx, cancel := context.WithCancel(limited(t))
	l := b.start(ctx, t, Program{Print("ready"), Spin()})
	l.until(t, "ready\n")
	if err := b.Interrupt(limited(t), l.id, wire.Hard, true); err != nil {
		t.Errorf("interrupt: %v", err)
	}
	cancel()
	asLost(t, l.wait().err)
}
