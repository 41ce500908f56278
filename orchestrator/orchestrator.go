package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"brig/orchestrator/config"
	"brig/orchestrator/owner"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/store"
)

// Options of New. Backends, Config, Paths and Owner are required.
type Options struct {
	Backends []sandbox.Backend // at most one of each kind; whoever made them closes them after Close
	Config   config.Config
	Paths    config.Paths
	Owner    *owner.Owner
	// Acknowledged tells whether a person has accepted on this machine that
	// nothing contains the code; nil: nobody has. See Acknowledge.
	Acknowledged func() bool
	// Verdicts are what the self-test saw on this boot; nil: it has not run.
	Verdicts func() map[sandbox.LayerID]Verdict
	// Warm keeps prepared instances ready, as many as the configuration says. It is
	// for a brig that lives: a short-lived one would pay for what it does not use.
	Warm bool
	// Store remembers sessions, so that with orchestrator.keep_sessions a later brig
	// goes on with them; see Adopt. Nil: nothing is recorded, nothing is kept. Whoever
	// opened it closes it after Close.
	Store *store.Store
	// Development allows backends that contain nothing.
	Development bool
}

// Promiser is what a backend implements to say which layers its instances
// promise to enforce. Without it the forecast is held against CorePromise.
type Promiser interface {
	Promised(base sandbox.Base) []sandbox.LayerID
}

// CorePromise are the layers without which nobody would speak of a sandbox.
func CorePromise() []sandbox.LayerID {
	return []sandbox.LayerID{
		sandbox.FSWrite, sandbox.FSRead, sandbox.NetOutbound, sandbox.UnixSockets, sandbox.NoNewPrivs,
		sandbox.Signals, sandbox.Ptrace, sandbox.InheritedFDs, sandbox.TreeKill,
	}
}

// Orchestrator opens sessions on the backend that the resolution chose. Its
// methods may be called concurrently.
type Orchestrator struct {
	options  Options
	current  atomic.Pointer[configured]
	observer atomic.Pointer[Observer] // nil: nobody looks
	backends map[sandbox.Kind]sandbox.Backend

	lease time.Duration // of instances that are kept

	pool *pool // handed out from only with Options.Warm

	life      context.Context // ends with Close; bounds probes, the first sweep and the pool
	end       context.CancelFunc
	work      sync.WaitGroup // probes, the first sweep, the pool, closing sessions
	adoptions sync.WaitGroup // calls of Adopt that are under way
	numbers   atomic.Uint64  // of instances

	mu       sync.Mutex
	closed   bool                  // guarded by mu, as everything below
	swept    bool                  // the first sweep was started
	sessions map[*Session]struct{} // open or closing
	probes   map[probeKey]*lookup
}

// New checks the options. It starts nothing but, with Options.Warm, the pool.
func New(o Options) (*Orchestrator, error) {
	if o.Owner == nil {
		return nil, errors.New("make an orchestrator: it needs an owner")
	}
	orc := &Orchestrator{
		options: o, lease: keepLease, backends: make(map[sandbox.Kind]sandbox.Backend, len(o.Backends)),
		sessions: make(map[*Session]struct{}), probes: make(map[probeKey]*lookup),
	}
	for _, b := range o.Backends {
		if _, twice := orc.backends[b.Kind()]; twice {
			return nil, fmt.Errorf("make an orchestrator: there are two %s backends", b.Kind())
		}
		orc.backends[b.Kind()] = b
	}
	orc.life, orc.end = context.WithCancel(context.Background())
	orc.current.Store(&configured{o.Config, settingsOf(o.Config)})
	orc.pool = newPool(orc)
	if o.Warm {
		orc.spawn(orc.pool.keep)
	}
	return orc, nil
}

// now is the configuration in force.
func (o *Orchestrator) now() *configured { return o.current.Load() }

// Reconfigure puts another configuration in force. Sessions keep what they have
// and take it up with their next instance, except limits.idle; prepared instances that it does not ask
// for any more are drained.
func (o *Orchestrator) Reconfigure(c config.Config) error {
	if err := c.Validate(); err != nil {
		return fmt.Errorf("reconfigure: %w", err)
	}
	o.current.Store(&configured{c, settingsOf(c)})
	o.pool.poke()
	return nil
}

// Resolve tells which backend a session opened now would get; want is empty for
// the configured one. A refusal is no error: it is in the Resolution.
func (o *Orchestrator) Resolve(ctx context.Context, want sandbox.Kind) (Resolution, error) {
	return o.resolve(ctx, question{want: want})
}

// Close closes every session, or leaves it to a later brig where it is kept, waits for what the orchestrator started and gives
// up at the end of ctx. It is idempotent and bounded as Session.Close is.
func (o *Orchestrator) Close(ctx context.Context) error {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.end()
	adopting := waitFor(ctx, &o.adoptions, "the sessions that were being taken over")

	o.mu.Lock()
	sessions := make([]*Session, 0, len(o.sessions))
	for s := range o.sessions {
		sessions = append(sessions, s)
	}
	o.mu.Unlock()
	errs := make([]error, len(sessions)+1, len(sessions)+2)
	errs = append(errs, adopting)
	var wg sync.WaitGroup
	for i, s := range sessions {
		wg.Go(func() { errs[i] = s.close(ctx, true) })
	}
	wg.Wait()
	errs[len(sessions)] = waitFor(ctx, &o.work, "what the orchestrator started")
	o.pool.mu.Lock()
	defer o.pool.mu.Unlock()
	errs = append(errs, o.pool.left...)
	return errors.Join(distinct(errs)...)
}

// spawn starts a goroutine that Close waits for; false: it is too late.
func (o *Orchestrator) spawn(f func()) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return false
	}
	o.work.Go(f)
	return true
}

// waitFor waits until wg is empty, or as long as ctx allows. The waiting
// goroutine ends with what it waits for.
func waitFor(ctx context.Context, wg *sync.WaitGroup, what string) error {
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for %s: %w", what, context.Cause(ctx))
	}
}

// errTooSlow is the cause of every bound that the orchestrator sets itself.
var errTooSlow = errors.New("it took too long")

// bounded is a context for cleaning up after ctx, which may have ended.
func bounded(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.WithoutCancel(ctx), d, errTooSlow)
}
