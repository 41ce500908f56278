package orchestrator

import (
	"context"
	"runtime"
	"sync"
	"time"

	"brig/orchestrator/sandbox"
)

const (
	// spareAge is how old a prepared instance may become: it never outlives a
	// rebuilt image, an updated engine or interpreter for longer than that.
	spareAge = 30 * time.Minute
	// askedFor is how long instances are kept for a base that sessions asked for and
	// that the settings do not name.
	askedFor = 10 * time.Minute
	// askedBases is for how many such bases; beyond, the one not asked for longest goes.
	askedBases = 4
	// poolRhythm is how often the pool looks whether what it keeps is still wanted
	// and its backend still there.
	poolRhythm = 15 * time.Second
	// bindBound is how long a prepared instance may take to take a session.
	bindBound = time.Second
)

// pool keeps prepared instances ready, so that opening a session costs a message
// to a runner instead of a start. It works over the contract, for any backend.
//
// An instance in it has a workspace directory of its own, which the session that
// gets it adopts; it is handed out once and never comes back. What it gives is
// for a resolution made at that moment, and is judged by its posture as a cold one.
type pool struct {
	o     *Orchestrator
	turns chan struct{} // one for each processor: preparing more at a time makes each slower
	wake  chan struct{} // capacity 1: there may be something to do

	mu      sync.Mutex
	shelves map[probeKey]*shelf // guarded by mu, as everything below
	chosen  probeKey            // what the settings lead to now
	chose   bool                // chosen is set
	refused string              // why it is not
	counts  PoolCounts
	left    []error // what could not be removed
}

// shelf is what the pool has for one backend and base.
type shelf struct {
	ready     []*spare // oldest first
	preparing int
	asked     time.Time // when a session asked for this base by itself
	failures  int       // in a row
	retry     time.Time // not before; zero: at once
	reason    string    // of the last failure
}

// spare is a prepared instance with its directory.
type spare struct {
	prepared sandbox.Prepared
	home     home
	made     time.Time
	source   string        // what the backend used when it was made, such as an engine
	off      chan struct{} // closed when it has left its shelf
}

func newPool(o *Orchestrator) *pool {
	return &pool{
		o: o, turns: make(chan struct{}, runtime.NumCPU()), wake: make(chan struct{}, 1),
		shelves: make(map[probeKey]*shelf),
	}
}

// keep tends the pool until the orchestrator closes, and then empties it.
func (p *pool) keep() {
	timer := time.NewTimer(poolRhythm)
	defer timer.Stop()
	for p.o.life.Err() == nil {
		timer.Reset(p.tend())
		select {
		case <-timer.C:
		case <-p.wake:
		case <-p.o.life.Done():
		}
	}
	p.mu.Lock()
	var all []*spare
	for key, s := range p.shelves {
		all = append(all, p.clear(s)...)
		delete(p.shelves, key)
	}
	p.mu.Unlock()
	var wg sync.WaitGroup
	for _, s := range all {
		wg.Go(func() { p.discard(s) })
	}
	wg.Wait()
}

// poke makes the pool look at once.
func (p *pool) poke() {
	select {
	case p.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// tend finds out what is wanted, throws away what is not, and starts to prepare
// what is missing. It returns after how long it has to be done again.
func (p *pool) tend() time.Duration {
	ctx, cancel := context.WithTimeoutCause(p.o.life, probeBound, errTooSlow)
	defer cancel()
	p.choose(ctx)
	next := poolRhythm
	for _, key := range p.wanted() {
		if wait := p.pausing(key); wait > 0 {
			next = min(next, wait)
			continue
		}
		// Nothing is prepared for a backend that does not answer, and what was
		// prepared on another engine than the one in use now is of no use.
		source, err := p.o.source(ctx, key)
		if p.o.life.Err() != nil {
			break
		}
		p.mu.Lock()
		s, there := p.shelves[key]
		if !there {
			p.mu.Unlock()
			continue
		}
		var old []*spare
		if err != nil {
			old = p.clear(s)
			p.counts.Drained += int64(len(old))
			p.failed(s, err)
		} else {
			old = p.weed(s, source, p.o.now().spares(key.kind))
			next = min(next, p.refill(key, s, source))
		}
		if wait := time.Until(s.retry); wait > 0 {
			next = min(next, wait)
		}
		p.mu.Unlock()
		p.throw(old)
	}
	return next
}

// choose puts up the shelf for what the settings lead to now, a step down included.
func (p *pool) choose(ctx context.Context) {
	r, err := p.o.resolve(ctx, question{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.chose, p.refused = err == nil && r.Err == nil, ""
	switch {
	case err != nil:
		p.refused = err.Error()
		return
	case r.Err != nil:
		p.refused = r.Err.Reason
		return
	}
	p.chosen = probeKey{r.Resolved, p.o.base(r.Resolved, wish{})}
	if _, there := p.shelves[p.chosen]; !there {
		p.shelves[p.chosen] = &shelf{}
	}
}

// wanted lists the shelves that stay and empties the others.
func (p *pool) wanted() []probeKey {
	p.mu.Lock()
	var keys []probeKey
	var old []*spare
	now := time.Now()
	for key, s := range p.shelves {
		configured := p.chose && key == p.chosen
		if configured || !s.asked.IsZero() && now.Sub(s.asked) < askedFor {
			keys = append(keys, key)
			continue
		}
		gone := p.clear(s)
		p.counts.Drained += int64(len(gone))
		old = append(old, gone...)
		delete(p.shelves, key)
	}
	p.mu.Unlock()
	p.throw(old)
	return keys
}

// pausing is how long a shelf with nothing on it waits after a failure.
func (p *pool) pausing(key probeKey) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s, there := p.shelves[key]; there && len(s.ready) == 0 && !s.retry.IsZero() {
		return time.Until(s.retry)
	}
	return 0
}

// weed takes off a shelf what is too old, was made on another engine or is one
// too many; the caller holds mu.
func (p *pool) weed(s *shelf, source string, most int) []*spare {
	var old, ready []*spare
	for _, spare := range s.ready {
		switch {
		case time.Since(spare.made) >= spareAge:
			p.counts.Expired++
		case spare.source != source, len(ready) >= most:
			p.counts.Drained++
		default:
			ready = append(ready, spare)
			continue
		}
		close(spare.off)
		old = append(old, spare)
	}
	s.ready = ready
	return old
}

// clear empties a shelf; the caller holds mu and throws away what it gets.
func (p *pool) clear(s *shelf) []*spare {
	old := s.ready
	s.ready = nil
	for _, spare := range old {
		close(spare.off)
	}
	return old
}

// throw discards beside whatever comes next.
func (p *pool) throw(old []*spare) {
	for _, s := range old {
		if !p.o.spawn(func() { p.discard(s) }) {
			p.discard(s)
		}
	}
}

// discard ends an instance that no session got, and removes its directory.
func (p *pool) discard(s *spare) {
	ctx, cancel := bounded(context.Background(), closeBound)
	defer cancel()
	err := s.prepared.Close(ctx)
	if homeErr := s.home.remove(); err == nil {
		err = homeErr
	}
	if err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.left) < maxLeft {
			p.left = append(p.left, err)
		}
	}
}

// maxLeft bounds how many failures of cleaning up are remembered.
const maxLeft = 8
