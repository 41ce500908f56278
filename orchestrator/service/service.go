package service

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"brig/orchestrator"
	"brig/orchestrator/api"
	"brig/orchestrator/audit"
	"brig/orchestrator/config"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/store"
)

// Options of New. Orchestrator, Store, Audit and Config are required. New observes the
// orchestrator, so nothing is opened there before.
type Options struct {
	Orchestrator *orchestrator.Orchestrator
	// Backends are those of the orchestrator, asked for facts.
	Backends []sandbox.Backend
	Store    *store.Store
	Audit    *audit.Log
	// Audited is what opening the audit log found.
	Audited audit.Report
	// Alive tells whether the process of that token lives: Owner.Alive. nil: none does.
	Alive func(process string) bool
	// Alone leaves what earlier brigs left to a brig that stays: this one is one client's
	// and ends with it.
	Alone bool
	// Config are the settings in force.
	Config func() config.Loaded
	// Selftest attempts what code must not do, tells how far it is, and returns when it
	// has ended; nil: this brig cannot.
	Selftest func(ctx context.Context, r api.SelftestRequest, progress func(api.SelftestProgress)) (api.Selftest, error)
	// Stale says why a self-test says nothing about now; empty: it does. nil: never.
	Stale func(api.Selftest) string
	// Verdicts are those of the latest self-test of that backend which is not stale; nil: none.
	Verdicts func(sandbox.Kind) map[sandbox.LayerID]sandbox.Verdict
	// Shutdown asks the process to end; it does not wait. nil: it cannot be asked.
	Shutdown func()
	// Login makes a one-time token for the pages; nil: there are none.
	Login func() (api.PageLogin, error)
	// Problems are what was wrong at the start, such as a store that was moved aside.
	Problems []string
	Version  string
	Log      zerolog.Logger
}

// Service is a living brig. Its methods may be called concurrently.
type Service struct {
	options Options
	started time.Time
	feed    *ring // what happens, for Watch
	tally   *tally
	missed  atomic.Uint64 // times that a follower was too slow
	streams atomic.Int64  // followers now

	life context.Context // ends with Close
	end  context.CancelCauseFunc
	work sync.WaitGroup // everything that runs beside calls

	settled chan struct{} // closed when what earlier brigs left has been seen to
	dirty   dirty         // sessions that are to be told of
	looking sync.Mutex    // one look where code would run at a time

	writable writable

	mu       sync.Mutex
	closing  bool // guarded by mu, as everything below
	sessions map[string]*session
	names    map[string]*session
	opening  map[string]*opening      // by name
	runs     map[string]*run          // under way, and those that ended lately
	recent   []*run                   // ended, the oldest first
	held     int                      // bytes of recent
	sources  int64                    // bytes of the sources of runs under way
	tokens   map[string][32]byte      // by session
	holds    map[string]chan struct{} // by session: closed when its token counts no more
	selftest *selftestRun             // under way, or the latest of this process
	spools   spools
	problems []string
	latest   seen // resolution

	agentsOpening int // sessions that agents are opening and nobody finds yet
}

// New checks the options, begins to take over the sessions that an earlier brig
// kept, and watches what code would run on. It does not wait for either: a call
// that names a session which is being taken over waits for it. ctx bounds New alone.
func New(o Options) (*Service, error) {
	if o.Orchestrator == nil || o.Store == nil || o.Audit == nil || o.Config == nil {
		return nil, errors.New("make the service: it needs an orchestrator, a store, an audit log and settings")
	}
	now := time.Now()
	s := &Service{
		options: o, started: now, tally: newTally(), settled: make(chan struct{}),
		// Microseconds since 1970, so that a number of an earlier brig is told from one of this.
		feed:     newRing(feedStream, uint64(now.UnixMicro())),
		sessions: map[string]*session{}, names: map[string]*session{}, opening: map[string]*opening{},
		runs: map[string]*run{}, tokens: map[string][32]byte{}, holds: map[string]chan struct{}{}, problems: append([]string(nil), o.Problems...),
	}
	s.dirty.more = make(chan struct{}, 1)
	s.life, s.end = context.WithCancelCause(context.Background())
	tokens, err := o.Store.Tokens(s.life)
	if err != nil {
		return nil, fmt.Errorf("make the service: %w", err)
	}
	for _, t := range tokens {
		s.tokens[t.Session] = t.Hash
	}
	o.Orchestrator.Observe(orchestrator.Observer{Changed: s.dirty.add, Bound: s.bound})
	s.work.Go(s.settle)
	s.work.Go(s.tellOfSessions)
	s.work.Go(s.watchResolution)
	return s, nil
}

// As is this brig as a caller sees it.
func (s *Service) As(c Caller) api.Brig { return &view{s: s, c: c} }

// view is the service with the rights of one caller.
type view struct {
	s *Service
	c Caller
}

// Reconfigured tells everybody who watches that other settings are in force. Whoever
// put them in force has told the orchestrator.
func (s *Service) Reconfigured() {
	s.note(audit.KindSettings, "brig", audit.EventData{Event: "read anew"})
	s.feed.publish(held{event: api.Event{Kind: api.EventSettings}})
}

// errEnding is the cause of the end of everything.
var errEnding = errors.New("brig is ending")

// Close refuses what is new, ends what runs, leaves kept sessions to a later brig
// and closes the others, and ends every stream when all that has been told. It
// closes the orchestrator too, and gives up waiting at the end of ctx. It is idempotent.
func (s *Service) Close(ctx context.Context) error {
	s.mu.Lock()
	first := !s.closing
	s.closing = true
	s.mu.Unlock()
	if first {
		s.feed.publish(held{event: api.Event{Kind: api.EventShutdown}})
	}
	s.end(errEnding)
	err := s.options.Orchestrator.Close(ctx)
	done := make(chan struct{})
	go func() { s.work.Wait(); close(done) }() // ends with what it waits for
	select {
	case <-done:
	case <-ctx.Done():
		err = errors.Join(err, fmt.Errorf("wait for the runs' records: %w", context.Cause(ctx)))
	}
	s.feed.end()
	return err
}

// begin counts a piece of work in, which Close waits for; false: brig is ending.
func (s *Service) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.work.Add(1)
	return true
}

// bounded is a context for what has to be done although the caller may be gone.
func bounded(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), d)
}

// recordBound is how long writing down may take; far more than it does.
const recordBound = 15 * time.Second
