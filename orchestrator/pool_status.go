package orchestrator

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"brig/orchestrator/sandbox"
)

// PoolStatus is how the pool of prepared instances stands.
type PoolStatus struct {
	On      bool          `json:"on"`
	Refused string        `json:"refused,omitempty"` // why nothing is prepared as the settings want it
	Shelves []ShelfStatus `json:"shelves,omitempty"`
	PoolCounts
}

// PoolCounts only ever grow.
type PoolCounts struct {
	Warm    int64 `json:"warm"`    // sessions that were handed a prepared instance
	Cold    int64 `json:"cold"`    // instances that were started for a session that waited
	Failed  int64 `json:"failed"`  // preparations that failed
	Lost    int64 `json:"lost"`    // prepared instances that ended by themselves
	Unbound int64 `json:"unbound"` // prepared instances that did not take the session they were handed to
	Expired int64 `json:"expired"` // prepared instances that became too old
	Drained int64 `json:"drained"` // prepared instances that were not wanted any more
}

// ShelfStatus is what the pool has for one backend and base.
type ShelfStatus struct {
	Kind      sandbox.Kind `json:"kind"`
	Base      sandbox.Base `json:"-"`
	Wanted    int          `json:"wanted"`
	Ready     int          `json:"ready"`
	Preparing int          `json:"preparing"`
	// Reason says why the latest preparation failed, and Retry after how long the next one begins.
	Reason string        `json:"reason,omitempty"`
	Retry  time.Duration `json:"retry_ns,omitempty"`
}

// PoolStatus tells what is ready now.
func (o *Orchestrator) PoolStatus() PoolStatus {
	p := o.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	status := PoolStatus{On: o.options.Warm, Refused: p.refused, PoolCounts: p.counts}
	for key, s := range p.shelves {
		one := ShelfStatus{
			Kind: key.kind, Base: key.base, Wanted: o.now().spares(key.kind),
			Ready: len(s.ready), Preparing: s.preparing, Reason: s.reason,
		}
		if !s.retry.IsZero() {
			one.Retry = max(time.Until(s.retry), 0)
		}
		status.Shelves = append(status.Shelves, one)
	}
	slices.SortFunc(status.Shelves, func(a, b ShelfStatus) int {
		return cmp.Or(strings.Compare(string(a.Kind), string(b.Kind)), strings.Compare(a.Base.Image, b.Base.Image))
	})
	return status
}
