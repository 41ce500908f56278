package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"brig/orchestrator/sandbox"
)

const (
	goodFor = 5 * time.Second // how long a good probe is believed
	badFor  = 1 * time.Second // how long a bad one is
	// probeBound ends a probe whose backend does not keep its own bound.
	probeBound = 20 * time.Second
	// vouchedFor is how long a good probe is believed beyond goodFor when a prepared
	// instance of that backend is about to be handed out: its own answer, through the
	// engine and from inside, says more about now than a probe would.
	vouchedFor = 2 * poolRhythm
	// probesKept is how many answers are kept before old ones are dropped.
	probesKept = 64
	// impatience is how long the wanted backend may take to answer before the one
	// to step down to is asked at the same time.
	impatience = 250 * time.Millisecond
)

// ownImage begins a sandbox.Base.Image that is no tier.
const ownImage = "image:"

// probeKey names what was asked: a forecast depends on the base as well.
type probeKey struct {
	kind sandbox.Kind
	base sandbox.Base
}

// lookup is one probe, shared by everybody who asks while it is under way or fresh.
type lookup struct {
	done  chan struct{} // closed when the fields below are set
	probe probe
	until time.Time
	// before is the answer to the same question that this one replaces.
	before *lookup
}

// look asks a backend, or joins those who have asked; nil: this build lacks it.
func (o *Orchestrator) look(kind sandbox.Kind, base sandbox.Base) (*lookup, error) {
	backend, present := o.backends[kind]
	if !present {
		return nil, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil, ErrClosed
	}
	key := probeKey{kind, base}
	if known, asked := o.probes[key]; asked && known.fresh() {
		return known, nil
	}
	l := &lookup{done: make(chan struct{}), before: o.probes[key]}
	if l.before != nil {
		l.before.before = nil // one answer back is enough
	}
	o.prune()
	o.probes[key] = l
	o.work.Go(func() {
		// Not the asker's context: it may leave while others wait for the same answer.
		ctx, cancel := context.WithTimeoutCause(o.life, probeBound, errTooSlow)
		defer cancel()
		l.probe = ask(ctx, backend, base)
		l.until = time.Now().Add(goodFor)
		if l.probe.Err != nil {
			l.until = time.Now().Add(badFor)
		}
		close(l.done)
	})
	return l, nil
}

func (l *lookup) fresh() bool {
	select {
	case <-l.done:
		return time.Now().Before(l.until)
	default:
		return true
	}
}

// prune drops answers that are no news any more when there are many: every base
// that somebody asks for has its own. The caller holds mu.
func (o *Orchestrator) prune() {
	if len(o.probes) < probesKept {
		return
	}
	for key, l := range o.probes {
		if !l.fresh() && time.Since(l.until) > vouchedFor {
			delete(o.probes, key)
		}
	}
}

// forget makes the next look ask again.
func (o *Orchestrator) forget(kind sandbox.Kind, base sandbox.Base) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.probes, probeKey{kind, base})
}

func ask(ctx context.Context, b sandbox.Backend, base sandbox.Base) probe {
	p := probe{Promised: CorePromise()}
	if promiser, says := b.(Promiser); says {
		p.Promised = promiser.Promised(base)
	}
	facts, err := b.Probe(ctx)
	if p.Err = err; err != nil {
		return p
	}
	p.Source = facts.Endpoint + " " + facts.Version
	// What has no forecast is not usable either: nothing may run on a guess.
	p.Layers, p.Err = b.Capabilities(ctx, base)
	return p
}

// question is what a resolution is made for.
type question struct {
	want sandbox.Kind // empty: the configured backend, with its step-down
	wish
	// failed are backends that have just shown that they cannot be used; they are not asked.
	failed map[sandbox.Kind]error
	warm   bool // a prepared instance will do
	trial  bool // see SessionOptions.Trial
}

// answered is the latest answer that has come, nil for none.
func (o *Orchestrator) answered(key probeKey) *lookup {
	o.mu.Lock()
	defer o.mu.Unlock()
	for l := o.probes[key]; l != nil; l = l.before {
		select {
		case <-l.done:
			return l
		default:
		}
	}
	return nil
}

// vouched is the latest answer if it was good, is not too old, and an instance
// that can prove it is ready; nil: somebody has to ask. The pool asks anew soon.
func (o *Orchestrator) vouched(key probeKey) *lookup {
	l := o.answered(key)
	if l == nil || l.probe.Err != nil || time.Since(l.until) > vouchedFor || !o.pool.has(key, l.probe.Source) {
		return nil
	}
	return l
}

// source names what a backend uses now, such as its engine; the error says why
// it cannot be used.
func (o *Orchestrator) source(ctx context.Context, key probeKey) (string, error) {
	l, err := o.look(key.kind, key.base)
	if err != nil {
		return "", err
	}
	if l == nil {
		return "", errors.New("this build of brig lacks the backend")
	}
	if err := l.wait(ctx, func() {}); err != nil {
		return "", err
	}
	return l.probe.Source, l.probe.Err
}

// inputs are what a resolution depends on, apart from what the backends answer and
// the self-test saw.
func (o *Orchestrator) inputs(q question) inputs {
	set := o.now()
	return inputs{
		Configured: set.backend, Requested: q.want, Fallback: set.fallback, Mode: o.base(sandbox.Host, q.wish).Mode, SwitchedOff: !set.codeExec,
		Probes: map[sandbox.Kind]probe{}, Development: o.options.Development, Acknowledged: o.acknowledged(),
		Image: strings.HasPrefix(o.base(sandbox.Docker, q.wish).Image, ownImage),
		Trial: q.trial,
	}
}

// verdicts are those of the self-test, which only the host sandbox is held against.
// Reading them may take asking the host what it would enforce now.
func (o *Orchestrator) verdicts() map[sandbox.LayerID]Verdict {
	if o.options.Verdicts == nil {
		return nil
	}
	if seen := o.options.Verdicts(); seen != nil {
		return seen
	}
	return map[sandbox.LayerID]Verdict{} // it has not run: that is for require to judge
}

// resolve gathers what the pure resolve needs and no more: the backend to step
// down to is asked only when the wanted one fails or keeps everybody waiting.
//
// A wanted backend that has a prepared instance ready is not asked again before
// it is handed out; see vouchedFor.
func (o *Orchestrator) resolve(ctx context.Context, q question) (Resolution, error) {
	base, in := q.wish, o.inputs(q)
	in.Verdicts = o.verdicts()
	rungs := ladder(in)
	for i, kind := range rungs {
		if err, known := q.failed[kind]; known {
			in.Probes[kind] = probe{Err: err}
			if mistaken(in.Probes[kind]) {
				break
			}
			continue
		}
		l, err := o.consult(kind, o.base(kind, base), q.warm)
		if err != nil {
			return Resolution{}, fmt.Errorf("resolve the backend: %w", err)
		}
		if l == nil {
			continue
		}
		hedge := func() {}
		if i+1 < len(rungs) {
			hedge = func() { _, _ = o.look(rungs[i+1], o.base(rungs[i+1], base)) } // its error comes back when its turn comes
		}
		if err := l.wait(ctx, hedge); err != nil {
			return Resolution{}, fmt.Errorf("resolve the backend: %w", err)
		}
		in.Probes[kind] = l.probe
		if try(in, kind) == nil || mistaken(l.probe) {
			break
		}
	}
	return resolve(in), nil
}

// consult looks, or believes what is vouched for where a prepared instance will do.
func (o *Orchestrator) consult(kind sandbox.Kind, base sandbox.Base, warm bool) (*lookup, error) {
	if warm {
		if l := o.vouched(probeKey{kind, base}); l != nil {
			return l, nil
		}
	}
	return o.look(kind, base)
}

// wait waits for the answer and calls hedge once when it is slow to come.
func (l *lookup) wait(ctx context.Context, hedge func()) error {
	slow := time.NewTimer(impatience)
	defer slow.Stop()
	for {
		select {
		case <-l.done:
			return nil
		case <-slow.C:
			hedge()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (o *Orchestrator) acknowledged() bool {
	return o.options.Acknowledged != nil && o.options.Acknowledged()
}
