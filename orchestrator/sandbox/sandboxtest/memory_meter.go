package sandboxtest

import (
	"brig/orchestrator/sandbox"
)

var _ sandbox.Meter = (*memoryInstance)(nil)

// Counters implements sandbox.Meter: what SetCounters said, or what the fake
// itself counted. What its runner reports of a run is another matter; see
// MemoryOptions.Lie.
func (i *memoryInstance) Counters() (sandbox.Counters, bool) {
	n := i.node
	if n.unmetered {
		return sandbox.Counters{}, false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.counters != nil {
		return *n.counters, true
	}
	return sandbox.Counters{OOMKills: n.runner.oomKills.Load(), ForkFailures: -1, Source: "in-memory runner"}, true
}

// SetCounters decides what the instance with that id is seen to have used from
// now on. It is false for an unknown id.
func (m *Memory) SetCounters(id sandbox.InstanceID, c sandbox.Counters) bool {
	n := m.machine.find(id)
	if n == nil {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.counters = &c
	return true
}
