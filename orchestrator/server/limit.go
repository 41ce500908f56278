package server

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"brig/orchestrator/api"
)

const (
	requestRate  = 500 // requests per second of one credential, in the long run
	requestBurst = 1000
	atOnce       = 256 // requests of one credential under way, streams and long polls included
	strangeRate  = 20  // unknown credentials per second that are answered one by one
	strangeBurst = 200
	noticedRate  = 1 // of them that are recorded, so that nobody fills the audit log
	noticedBurst = 20
	maxLimits    = 4096 // credentials whose use is remembered
)

// limits bound what one credential can take from the others.
type limits struct {
	strangers *rate.Limiter
	noticed   *rate.Limiter

	mu sync.Mutex
	of map[string]*limit // guarded by mu, as what is in it
}

type limit struct {
	rate *rate.Limiter
	now  int
	used time.Time
}

func newLimits() *limits {
	return &limits{strangers: rate.NewLimiter(strangeRate, strangeBurst), noticed: rate.NewLimiter(noticedRate, noticedBurst), of: map[string]*limit{}}
}

// enter lets a request of a credential in; it owes a call of release.
func (l *limits) enter(key string) (release func(), _ *api.Problem) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.of[key]
	if one == nil {
		l.forget()
		one = &limit{rate: rate.NewLimiter(requestRate, requestBurst)}
		l.of[key] = one
	}
	one.used = time.Now()
	if one.now >= atOnce {
		return nil, later(api.CodeTooMany, "too many requests of this credential are under way")
	}
	if !one.rate.Allow() {
		return nil, later(api.CodeRate, "too many requests of this credential came within a second")
	}
	one.now++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		one.now--
	}, nil
}

// forget drops what was not used lately; the caller holds mu.
func (l *limits) forget() {
	if len(l.of) < maxLimits {
		return
	}
	full := time.Duration(requestBurst/requestRate+1) * time.Second // after which a limiter is as new
	for key, one := range l.of {
		if one.now == 0 && time.Since(one.used) > full {
			delete(l.of, key)
		}
	}
}

// strange is nil as long as refused credentials are few.
func (l *limits) strange() *api.Problem {
	if l.strangers.Allow() {
		return nil
	}
	return later(api.CodeRate, "too many requests came with a wrong credential or none")
}

func later(code api.Code, detail string) *api.Problem {
	p := api.NewProblem(code, detail, "try again a little later")
	p.RetryAfter = 1
	return p
}
