package hostfallback

import (
	"time"

	"brig/hostfallback/confine"
)

// take returns a zygote that is ready, for one session. Without one, why is empty
// unless there was one that cannot be used.
func (z *zygotes) take(key zygoteKey) (found *zygote, why string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	got := z.all[key]
	if got == nil || z.closed {
		return nil, ""
	}
	select {
	case <-got.made:
	default:
		return nil, ""
	}
	if got.why != "" {
		return nil, got.why
	}
	select {
	case <-got.process.gone: // killed, or tired
		delete(z.all, key)
		return nil, ""
	default:
	}
	got.live++
	got.used = time.Now()
	got.timer.Stop()
	return got, ""
}

// give ends what take began.
func (z *zygotes) give(key zygoteKey, used *zygote) {
	z.mu.Lock()
	defer z.mu.Unlock()
	used.live--
	used.used = time.Now()
	if used.live == 0 && z.all[key] == used {
		used.timer.Reset(used.idle)
	}
}

// spoiled takes a zygote out of use that could not make a session. It is not
// made again, so that no session after this one waits for the same answer; only
// one that was killed is.
func (z *zygotes) spoiled(key zygoteKey, bad *zygote, why string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	bad.timer.Stop()
	bad.retire()
	if z.all[key] != bad {
		return
	}
	made := make(chan struct{})
	close(made)
	note := &zygote{made: made, why: why}
	z.all[key] = note
	go func() {
		<-bad.process.gone
		if e := bad.process.ended; e != nil && e.Cause == confine.EndOrdered {
			return // it ended because it was retired
		}
		z.mu.Lock()
		defer z.mu.Unlock()
		if z.all[key] == note {
			delete(z.all, key)
		}
	}()
}

// want has a zygote made in the background, if there is none. Where there are
// enough, the one that was used longest ago makes way.
func (z *zygotes) want(key zygoteKey, o ZygoteOptions, makeOne func() (*zygote, error)) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.closed || z.all[key] != nil {
		return
	}
	if z.all == nil {
		z.all = make(map[zygoteKey]*zygote)
	}
	z.makeWay(o.Most)
	place := &zygote{made: make(chan struct{}), used: time.Now(), idle: o.Idle}
	if place.idle == 0 {
		place.idle = zygoteIdle
	}
	z.all[key] = place
	z.making.Go(func() {
		got, err := makeOne()
		z.mu.Lock()
		defer z.mu.Unlock()
		defer close(place.made)
		if err != nil {
			place.why = err.Error()
			return
		}
		place.process, place.started, place.ask, place.retire = got.process, got.started, got.ask, got.retire
		if z.closed || z.all[key] != place {
			place.why = "it came too late"
			place.retire()
			return
		}
		place.timer = time.AfterFunc(place.idle, func() { z.tire(key, place) })
	})
}

// makeWay lets go of zygotes until there is room for one more. Reasons why there
// is none take no room. The caller holds the lock.
func (z *zygotes) makeWay(most int) {
	for {
		var oldest zygoteKey
		n := 0
		for key, other := range z.all {
			if other.why != "" {
				continue
			}
			if n++; n == 1 || other.used.Before(z.all[oldest].used) {
				oldest = key
			}
		}
		if n < most {
			return
		}
		z.drop(oldest)
	}
}

// tire lets go of a zygote that nobody has used for a while.
func (z *zygotes) tire(key zygoteKey, idle *zygote) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.all[key] == idle && idle.live == 0 {
		z.drop(key)
	}
}

// drop forgets a zygote, which ends with its last session. The caller holds the lock.
func (z *zygotes) drop(key zygoteKey) {
	old := z.all[key]
	delete(z.all, key)
	select {
	case <-old.made:
		if old.why == "" {
			old.timer.Stop()
			old.retire()
		}
	default: // whoever makes it finds that nobody wants it
	}
}

// close lets go of all zygotes. Those without sessions are gone when it returns.
func (z *zygotes) close() {
	z.mu.Lock()
	z.closed = true
	all := make([]*zygote, 0, len(z.all))
	for key, one := range z.all {
		all = append(all, one)
		z.drop(key)
	}
	z.mu.Unlock()
	z.making.Wait()
	for _, one := range all {
		z.mu.Lock()
		idle := one.process != nil && one.live == 0
		z.mu.Unlock()
		if idle {
			<-one.process.gone
		}
	}
}
