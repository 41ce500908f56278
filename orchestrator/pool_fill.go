package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"brig/orchestrator/sandbox"
)

const (
	// retryFirst and retryMost bound how long the pool waits after a failure; the
	// wait doubles with each one in a row.
	retryFirst = time.Second
	retryMost  = time.Minute
	// fillBound is how long preparing may take; a first one may have to build an image.
	fillBound = 20 * time.Minute
	// refillDelay is how long after a hand-out the pool makes the next instance.
	refillDelay = 50 * time.Millisecond
	// young is how long an instance has to live for its death not to count as a
	// failure: one that always dies at once must not be made again and again.
	young = time.Minute
)

// refill starts what is missing on a shelf and says after how long that shelf has
// to be looked at again; the caller holds mu.
func (p *pool) refill(key probeKey, s *shelf, source string) time.Duration {
	next := poolRhythm
	if len(s.ready) > 0 {
		next = max(spareAge-time.Since(s.ready[0].made), time.Millisecond)
	}
	if time.Now().Before(s.retry) {
		return next
	}
	missing := p.o.now().spares(key.kind) - len(s.ready) - s.preparing
	if s.failures > 0 {
		missing = min(missing, 1-s.preparing) // one that tries is enough
	}
	for range missing {
		if !p.o.spawn(func() { p.fill(key, source) }) {
			break
		}
		s.preparing++
	}
	return next
}

// fill prepares one instance and puts it on its shelf.
func (p *pool) fill(key probeKey, source string) {
	spare, err := p.prepare(p.o.life, key, source)
	p.mu.Lock()
	s, wanted := p.shelves[key]
	if wanted {
		s.preparing = max(s.preparing-1, 0)
	}
	switch {
	case err != nil:
		p.counts.Failed++
		if wanted {
			p.failed(s, err)
		}
		p.mu.Unlock()
		var cannot *sandbox.Unavailable
		if errors.As(err, &cannot) {
			p.o.forget(key.kind, key.base)
		}
	case !wanted || p.o.life.Err() != nil:
		p.counts.Drained++
		p.mu.Unlock()
		p.discard(spare)
	default:
		s.ready = append(s.ready, spare)
		s.retry, s.reason = time.Time{}, ""
		p.mu.Unlock()
		p.guard(key, spare)
	}
	p.poke()
}

// prepare waits for a turn and makes an instance in a fresh directory.
func (p *pool) prepare(ctx context.Context, key probeKey, source string) (*spare, error) {
	select {
	case p.turns <- struct{}{}:
		defer func() { <-p.turns }()
	case <-p.o.life.Done():
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	h, err := makeHome(p.o.options.Paths.Data, homeName(p.o.options.Owner.ID(), string(p.o.newInstanceID())), false)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, fillBound, errTooSlow)
	defer cancel()
	prepared, err := p.o.backends[key.kind].Prepare(ctx, key.base, h.workspace)
	if err != nil {
		return nil, errors.Join(err, h.remove())
	}
	return &spare{prepared: prepared, home: h, made: time.Now(), source: source, off: make(chan struct{})}, nil
}

// guard takes an instance that dies off its shelf. It returns when the instance
// has left the shelf, for whatever reason: the goroutine that prepared it does that.
func (p *pool) guard(key probeKey, spare *spare) {
	p.poke()
	select {
	case <-spare.off:
		return
	case <-spare.prepared.Done():
	}
	p.mu.Lock()
	if s, there := p.shelves[key]; !there || !p.remove(s, spare) {
		p.mu.Unlock()
		return // somebody else has it
	} else if time.Since(spare.made) < young {
		p.failed(s, errDied)
	} else {
		s.failures = 0
	}
	p.counts.Lost++
	p.mu.Unlock()
	p.discard(spare)
}

var errDied = errors.New("a prepared instance ended soon after its start")

// remove takes one off a shelf; the caller holds mu.
func (p *pool) remove(s *shelf, one *spare) bool {
	for i, spare := range s.ready {
		if spare == one {
			s.ready = append(s.ready[:i:i], s.ready[i+1:]...)
			close(spare.off)
			return true
		}
	}
	return false
}

// failed notes a failure and when to try again; the caller holds mu.
func (p *pool) failed(s *shelf, err error) {
	s.failures++
	s.reason = err.Error()
	wait := retryMost
	if shift := s.failures - 1; shift < 10 {
		wait = min(retryFirst<<shift, retryMost)
	}
	// Half of it is chance: several brigs must not come back to an engine at once.
	s.retry = time.Now().Add(wait/2 + rand.N(wait/2))
}

// handOut gives a session an instance that is ready, with the directory that
// comes with it; false: there is none, and the session is launched cold. What
// goes wrong with a prepared one is no failure of the session: it is thrown away.
func (p *pool) handOut(ctx context.Context, r Resolution, l launch) (bound, home, bool) {
	key := probeKey{r.Resolved, p.o.base(r.Resolved, l.wish)}
	for range 2 {
		one := p.take(key, l)
		if one == nil {
			break
		}
		b, err := p.give(ctx, r, key.base, one, l)
		if err == nil {
			return b, one.home, true
		}
		if ctx.Err() != nil {
			break
		}
	}
	return bound{}, home{}, false
}

// made prepares an instance that is on no shelf, for one session alone, and gives
// it to that session as handOut does.
func (p *pool) made(ctx context.Context, r Resolution, l launch) (bound, home, error) {
	key := probeKey{r.Resolved, p.o.base(r.Resolved, l.wish)}
	var errs []error
	for range 2 { // as handOut tries
		one, err := p.prepare(ctx, key, "")
		if err != nil {
			return bound{}, home{}, errors.Join(append(errs, err)...)
		}
		b, err := p.give(ctx, r, key.base, one, l)
		if err == nil {
			return b, one.home, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return bound{}, home{}, errors.Join(errs...)
}

// give binds an instance that was taken off its shelf, and throws away one that cannot be.
func (p *pool) give(ctx context.Context, r Resolution, base sandbox.Base, one *spare, l launch) (bound, error) {
	b, err := p.bind(ctx, r, base, one, l)
	p.mu.Lock()
	if err == nil {
		p.counts.Warm++
	} else {
		p.counts.Unbound++
	}
	p.mu.Unlock()
	if err != nil {
		p.throw([]*spare{one})
	}
	return b, err
}

// take takes the oldest instance that lives off its shelf, and notes that one was wanted.
func (p *pool) take(key probeKey, l launch) *spare {
	latest := p.o.answered(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	// Making the next one waits: the first run of this session wants the processors.
	defer time.AfterFunc(refillDelay, p.poke)
	s, there := p.shelves[key]
	if l.wish.any() || l.want != "" {
		s = p.ask(key)
	} else if !there {
		return nil
	}
	for i, spare := range s.ready {
		select {
		case <-spare.prepared.Done():
			continue // its guard takes it away
		default:
		}
		if latest == nil || spare.source != latest.probe.Source || time.Since(spare.made) >= spareAge {
			continue
		}
		s.ready = append(s.ready[:i:i], s.ready[i+1:]...)
		close(spare.off)
		s.failures = 0
		return spare
	}
	return nil
}

// ask notes that a session wants a base that the settings may not name; the caller holds mu.
func (p *pool) ask(key probeKey) *shelf {
	s, there := p.shelves[key]
	if !there {
		s = &shelf{}
		p.shelves[key] = s
	}
	s.asked = time.Now()
	var oldest probeKey
	n := 0
	for k, other := range p.shelves {
		if other.asked.IsZero() {
			continue
		}
		if n++; n == 1 || other.asked.Before(p.shelves[oldest].asked) {
			oldest = k
		}
	}
	if n > askedBases && oldest != key {
		p.shelves[oldest].asked = time.Time{} // the next look empties it, unless the settings name it
	}
	return s
}

// bind gives the instance to the session, as launching one does.
func (p *pool) bind(ctx context.Context, r Resolution, base sandbox.Base, spare *spare, l launch) (bound, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, bindBound, errTooSlow)
	defer cancel()
	claim := l.claim
	claim.ID, claim.Workspace = p.o.newInstanceID(), spare.home.workspace
	instance, err := spare.prepared.Bind(ctx, claim)
	if err != nil {
		return bound{}, fmt.Errorf("bind a prepared instance: %w", err)
	}
	b, err := p.o.seal(r, base, instance, l)
	if err != nil {
		return bound{}, errors.Join(err, closeInstance(ctx, instance))
	}
	return b, nil
}

// has says that an instance made on that source is ready.
func (p *pool) has(key probeKey, source string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, there := p.shelves[key]
	if !there {
		return false
	}
	for _, spare := range s.ready {
		if spare.source == source {
			return true
		}
	}
	return false
}

// cold counts an instance that was started for a session that waited.
func (p *pool) cold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts.Cold++
}
