package sandboxtest

import (
	"context"
	"errors"
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
	// Owner is whose instances these are, for Sweep and Adopt.
	Owner string
	// Detached gives every instance a workspace of its own, as a remote engine
	// does: the host directory that it is prepared with stays empty, and files travel
	// by Call. See Directory.
	Detached bool
	// Unmetered: the counters of an instance cannot be read.
	Unmetered bool
	// Lie changes what the runner reports of a run, as user code that has taken a
	// runner over would: its own counts, its outcome. Nil: it is honest.
	Lie func(*wire.Exit)
}

// Memory is a backend without a process and without a kernel: a working fake
// for tests, which speaks the real wire. See the package comment for what it
// does not prove.
type Memory struct {
	o       MemoryOptions
	machine *machine

	mu          sync.Mutex
	unavailable *sandbox.Unavailable
	prepares    int
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
	return &Memory{o: o, machine: newMachine(), unavailable: o.Unavailable}
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
	m.machine.mu.Lock()
	defer m.machine.mu.Unlock()
	m.machine.leftover[owner] = append(m.machine.leftover[owner], id)
}

// Prepares counts the calls of Prepare that succeeded.
func (m *Memory) Prepares() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.prepares
}

// Instances counts what lives now: prepared, bound, or let go and waiting to be adopted.
func (m *Memory) Instances() int { return len(m.machine.all(func(*node) bool { return true })) }

// Lose kills the instance with that id from outside, as a crash would, and
// gives the evidence that its Cause will be. It is false for an unknown id.
func (m *Memory) Lose(id sandbox.InstanceID, e sandbox.Ending) bool {
	n := m.machine.find(id)
	if n == nil {
		return false
	}
	n.lose(e)
	return true
}

// LosePrepared kills every instance that no session has yet, and counts them.
func (m *Memory) LosePrepared(e sandbox.Ending) int {
	waiting := m.machine.all(func(n *node) bool { return n.instanceID() == "" })
	for _, n := range waiting {
		n.lose(e)
	}
	return len(waiting)
}

// Processes lists what lives inside the instance with that id.
func (m *Memory) Processes(id sandbox.InstanceID) []Process {
	n := m.machine.find(id)
	if n == nil {
		return nil
	}
	return n.runner.table.list()
}

// Directory is where the files of the instance with that id really are, empty
// for an unknown id.
func (m *Memory) Directory(id sandbox.InstanceID) string {
	n := m.machine.find(id)
	if n == nil {
		return ""
	}
	return n.dir()
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
	n, err := m.start(base, workspace)
	if err != nil {
		return nil, err
	}
	i := m.instance(n)
	if err := n.connect(ctx, i); err != nil {
		return nil, errors.Join(err, i.Close(context.WithoutCancel(ctx)))
	}
	m.mu.Lock()
	m.prepares++
	m.mu.Unlock()
	return &memoryPrepared{instance: i}, nil
}

// instance is a view of n that no connection has yet.
func (m *Memory) instance(n *node) *memoryInstance {
	notes := []string(nil)
	if n.own != "" {
		notes = append(notes, "the workspace is a directory of the instance's own")
	}
	return &memoryInstance{
		backend: m, node: n, done: make(chan struct{}),
		posture: sandbox.Posture{
			Backend: m.o.Kind, Identity: m.o.Identity, Layers: slices.Clone(m.o.Layers),
			Promised: append([]sandbox.LayerID{}, m.o.Promised...), Notes: notes, Detached: n.own != "",
		},
	}
}

// Sweep implements sandbox.Backend. What it finds is what AddLeftover named, and
// instances with a lease that no brig is connected to.
func (m *Memory) Sweep(_ context.Context, owner string, keep func(sandbox.InstanceID) bool) (int, error) {
	unwanted := m.machine.all(func(n *node) bool { return n.owner == owner && !n.connected() && !keep(n.instanceID()) })
	for _, n := range unwanted {
		n.kill()
	}
	m.machine.mu.Lock()
	defer m.machine.mu.Unlock()
	left := m.machine.leftover
	before := len(left[owner])
	left[owner] = slices.DeleteFunc(left[owner], func(id sandbox.InstanceID) bool { return !keep(id) })
	return len(unwanted) + before - len(left[owner]), nil
}

// Close implements sandbox.Backend.
func (m *Memory) Close(context.Context) error { return nil }
