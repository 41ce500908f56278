package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// MemoryOptions shape a Memory. The zero value is a backend of kind memory that
// is always available and passes Run.
type MemoryOptions struct {
	// Kind lets the fake stand for another backend, as in tests of the resolution.
	Kind sandbox.Kind
	// Unavailable is the answer of Probe and Prepare; see also SetUnavailable.
	Unavailable *sandbox.Unavailable
	// Layers replace what the fake says about itself; see EnforcedLayers.
	Layers []sandbox.Layer
	// Promised are the layers that the fake's posture promises.
	Promised []sandbox.LayerID
	// Identity replaces the posture's identity.
	Identity string
	// Facts replace the answer of Probe; its Backend is always the kind.
	Facts sandbox.Facts
	// PrepareDelay is how long Prepare takes.
	PrepareDelay time.Duration
	// Stuck makes the runner ignore every interrupt, as one that is out of order
	// would, so that only closing the instance ends a run.
	Stuck bool
}

// Memory is a backend without a process and without a kernel: a working fake
// for tests, which speaks the real wire. See the package comment for what it
// does not prove.
type Memory struct {
	o MemoryOptions

	mu          sync.Mutex
	unavailable *sandbox.Unavailable
	prepares    int
	live        map[*memoryInstance]struct{}
	leftover    map[string][]sandbox.InstanceID
}

var _ sandbox.Backend = (*Memory)(nil)

// NewMemory returns a Memory.
func NewMemory(o MemoryOptions) *Memory {
	if o.Kind == "" {
		o.Kind = sandbox.Memory
	}
	if o.Layers == nil {
		o.Layers = memoryLayers()
	}
	if err := sandbox.Complete(o.Layers); err != nil {
		panic("BUG: the layers of a Memory: " + err.Error())
	}
	if o.Identity == "" {
		o.Identity = "sandboxtest"
	}
	return &Memory{
		o: o, unavailable: o.Unavailable, live: make(map[*memoryInstance]struct{}),
		leftover: make(map[string][]sandbox.InstanceID),
	}
}

// memoryLayers is what the fake can say without lying.
func memoryLayers() []sandbox.Layer {
	var out []sandbox.Layer
	for _, id := range sandbox.Layers() {
		l := sandbox.Layer{
			ID: id, State: sandbox.Unsupported, Code: "no-process",
			Reason: "the in-memory backend runs the steps of a test program and no process",
		}
		switch id {
		case sandbox.OutputLimit, sandbox.TreeKill, sandbox.MemoryLimit:
			l = sandbox.Layer{ID: id, State: sandbox.Enforced, Mechanism: "in-memory runner"}
		}
		out = append(out, l)
	}
	return out
}

// EnforcedLayers is a complete list in which everything is enforced except the
// given layers, which are off.
func EnforcedLayers(except ...sandbox.LayerID) []sandbox.Layer {
	var out []sandbox.Layer
	for _, id := range sandbox.Layers() {
		l := sandbox.Layer{ID: id, State: sandbox.Enforced, Mechanism: "pretended"}
		if slices.Contains(except, id) {
			l = sandbox.Layer{ID: id, State: sandbox.Off, Code: "left-off", Reason: "a test left it off"}
		}
		out = append(out, l)
	}
	return out
}

// SetUnavailable changes the answer of Probe and Prepare from now on; nil makes
// the backend usable. Instances live on.
func (m *Memory) SetUnavailable(u *sandbox.Unavailable) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unavailable = u
}

// AddLeftover pretends that an earlier process of owner left an instance behind.
func (m *Memory) AddLeftover(owner string, id sandbox.InstanceID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leftover[owner] = append(m.leftover[owner], id)
}

// Prepares counts the calls of Prepare that succeeded.
func (m *Memory) Prepares() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.prepares
}

// Instances counts what lives now, prepared or bound.
func (m *Memory) Instances() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.live)
}

// Lose kills the instance with that id from outside, as a crash would, and
// gives the evidence that its Cause will be. It is false for an unknown id.
func (m *Memory) Lose(id sandbox.InstanceID, e sandbox.Ending) bool {
	i := m.find(id)
	if i == nil {
		return false
	}
	i.lose(e)
	return true
}

// Processes lists what lives inside the instance with that id.
func (m *Memory) Processes(id sandbox.InstanceID) []Process {
	i := m.find(id)
	if i == nil {
		return nil
	}
	return i.runner.table.list()
}

func (m *Memory) find(id sandbox.InstanceID) *memoryInstance {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.live {
		if i.ID() == id {
			return i
		}
	}
	return nil
}

// Kind implements sandbox.Backend.
func (m *Memory) Kind() sandbox.Kind { return m.o.Kind }

// Probe implements sandbox.Backend.
func (m *Memory) Probe(ctx context.Context) (sandbox.Facts, error) {
	if err := m.usable(ctx); err != nil {
		return sandbox.Facts{}, err
	}
	f := m.o.Facts
	f.Backend = m.o.Kind
	if f.Endpoint == "" {
		f.Endpoint, f.Source, f.Version = "memory", "made by a test", "0"
	}
	return f, nil
}

func (m *Memory) usable(ctx context.Context) error {
	m.mu.Lock()
	u := m.unavailable
	m.mu.Unlock()
	if u != nil {
		return u
	}
	return context.Cause(ctx)
}

// Capabilities implements sandbox.Backend.
func (m *Memory) Capabilities(context.Context, sandbox.Base) ([]sandbox.Layer, error) {
	return slices.Clone(m.o.Layers), nil
}

// Prepare implements sandbox.Backend.
func (m *Memory) Prepare(ctx context.Context, base sandbox.Base, workspace string) (sandbox.Prepared, error) {
	if m.o.PrepareDelay > 0 {
		timer := time.NewTimer(m.o.PrepareDelay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	if err := m.usable(ctx); err != nil {
		return nil, err
	}
	limits := base.Limits.WithDefaults()
	fromBrig, toRunner := io.Pipe()
	fromRunner, toBrig := io.Pipe()
	closeBoth := func() error {
		return errors.Join(fromBrig.Close(), toRunner.Close(), fromRunner.Close(), toBrig.Close())
	}
	runner, err := newMemoryRunner(workspace, limits.Memory, fromBrig, toBrig, closeBoth)
	if err != nil {
		return nil, errors.Join(err, closeBoth())
	}
	runner.stuck = m.o.Stuck
	i := &memoryInstance{
		backend: m, runner: runner, workspace: workspace, served: make(chan struct{}), done: make(chan struct{}),
		peer: wire.NewPeer(fromRunner, toRunner, wire.PeerOptions{Close: closeBoth}),
		posture: sandbox.Posture{
			Backend: m.o.Kind, Identity: m.o.Identity, Layers: slices.Clone(m.o.Layers),
			Promised: append([]sandbox.LayerID{}, m.o.Promised...),
		},
	}
	m.mu.Lock()
	m.live[i] = struct{}{}
	m.mu.Unlock()
	i.watching.Go(func() {
		defer close(i.served)
		runner.serve()
	})
	i.watching.Go(i.watch)
	hello := wire.Hello{Version: wire.Version, Workspace: workspace, Scratch: workspace, Bounds: limits.Bounds()}
	if _, err := i.peer.Hello(ctx, hello); err != nil {
		return nil, errors.Join(fmt.Errorf("greet the runner: %w", err), i.Close(context.WithoutCancel(ctx)))
	}
	m.mu.Lock()
	m.prepares++
	m.mu.Unlock()
	return &memoryPrepared{instance: i}, nil
}

// Sweep implements sandbox.Backend; what AddLeftover named is all it can find.
func (m *Memory) Sweep(_ context.Context, owner string, keep func(sandbox.InstanceID) bool) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := len(m.leftover[owner])
	m.leftover[owner] = slices.DeleteFunc(m.leftover[owner], func(id sandbox.InstanceID) bool { return !keep(id) })
	return before - len(m.leftover[owner]), nil
}

// Close implements sandbox.Backend.
func (m *Memory) Close(context.Context) error { return nil }
