package service

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"brig/orchestrator"
	"brig/orchestrator/api"
	"brig/orchestrator/sandbox"
)

// tally counts what has happened since the start.
type tally struct {
	mu    sync.Mutex
	c     Counts // guarded by mu: the totals and histograms of it
	open  map[sandbox.Kind]*Histogram
	took  map[sandbox.Kind]*Histogram
	waits *Histogram
	busy  int // runs that have an interpreter
}

func newTally() *tally {
	return &tally{
		c: Counts{
			Opened: map[SessionKind]uint64{}, Closed: map[string]uint64{}, Refused: map[string]uint64{}, Runs: map[RunKind]uint64{},
			Reaped: map[sandbox.Kind]uint64{},
		},
		open: map[sandbox.Kind]*Histogram{}, took: map[sandbox.Kind]*Histogram{}, waits: newHistogram(),
	}
}

// newHistogram has bounds from a millisecond to ten minutes.
func newHistogram() *Histogram {
	bounds := []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 600}
	return &Histogram{Bounds: bounds, Counts: make([]uint64, len(bounds))}
}

func (h *Histogram) add(d time.Duration) {
	v := d.Seconds()
	h.Count, h.Sum = h.Count+1, h.Sum+v
	for i, bound := range h.Bounds {
		if v <= bound {
			h.Counts[i]++
		}
	}
}

func (h *Histogram) copy() Histogram {
	out := *h
	out.Counts = slices.Clone(h.Counts)
	return out
}

func kindOf(i orchestrator.Info) SessionKind {
	return SessionKind{Backend: i.Stamp.Backend, Degraded: i.Stamp.Degraded, Weakened: len(i.Stamp.Weakened) > 0}
}

func of(m map[sandbox.Kind]*Histogram, kind sandbox.Kind) *Histogram {
	if m[kind] == nil {
		m[kind] = newHistogram()
	}
	return m[kind]
}

func (t *tally) opened(i orchestrator.Info, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.c.Opened[kindOf(i)]++
	of(t.open, i.Stamp.Backend).add(took)
}

func (t *tally) closed(reason string) { t.up(func(c *Counts) { c.Closed[reason]++ }) }
func (t *tally) adopted()             { t.up(func(c *Counts) { c.Adopted++ }) }
func (t *tally) storeFailed()         { t.up(func(c *Counts) { c.StoreFailures++ }) }
func (t *tally) auditFailed()         { t.up(func(c *Counts) { c.AuditFailures++ }) }

func (t *tally) auditFailures() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.c.AuditFailures
}

// refused counts what could not begin.
func (t *tally) refused(err error) {
	code := api.CodeInternal
	var p *api.Problem
	if errors.As(err, &p) {
		code = p.Code
	}
	t.up(func(c *Counts) { c.Refused[string(code)]++ })
}

func (t *tally) reaped(instances map[sandbox.Kind]int) {
	t.up(func(c *Counts) {
		for kind, n := range instances {
			c.Reaped[kind] += uint64(n)
		}
	})
}

func (t *tally) up(f func(*Counts)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(&t.c)
}

func (t *tally) began() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy++
}

// ended counts a run; begun says that began was called for it.
func (t *tally) ended(final api.Run, r orchestrator.Result, begun bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if begun {
		t.busy--
		of(t.took, r.Stamp.Backend).add(r.Elapsed)
		t.waits.add(r.Queued)
	}
	t.c.Runs[RunKind{r.Stamp.Backend, sandbox.Cause(final.Cause)}]++
}

// Counts tells them. It takes microseconds and asks nobody.
func (s *Service) Counts() Counts {
	s.tally.mu.Lock()
	c := s.tally.c
	c.Opened, c.Closed, c.Refused, c.Runs, c.Reaped = maps.Clone(c.Opened), maps.Clone(c.Closed), maps.Clone(c.Refused), maps.Clone(c.Runs), maps.Clone(c.Reaped)
	c.Open, c.Elapsed = map[sandbox.Kind]Histogram{}, map[sandbox.Kind]Histogram{}
	for kind, h := range s.tally.open {
		c.Open[kind] = h.copy()
	}
	for kind, h := range s.tally.took {
		c.Elapsed[kind] = h.copy()
	}
	c.Waited, c.Running = s.tally.waits.copy(), s.tally.busy
	s.tally.mu.Unlock()

	s.mu.Lock()
	var all []*session
	for _, x := range s.sessions {
		all = append(all, x)
	}
	live := 0
	for _, x := range all {
		live += x.pending
	}
	c.Resolved, c.Degraded, c.Weakened = s.latest.resolved, s.latest.degraded, s.latest.weakened
	s.mu.Unlock()
	c.Queued = max(live-c.Running, 0)
	c.Sessions = map[SessionKind]int{}
	for _, x := range all {
		c.Sessions[kindOf(x.live.Info())]++
	}
	c.Started, c.Pool = s.started, s.options.Orchestrator.PoolStatus()
	c.Streams, c.Missed = int(s.streams.Load()), s.missed.Load()
	return c
}
