package selftest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"brig/orchestrator"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

const (
	sharedBound = 20 * time.Second // of all attempts in one session; each has its own bound beside it
	closing     = 15 * time.Second
)

// Run tries the catalogue on a subject. An error means that there is no report: the
// decoys could not be made, no session could be started, or ctx ended. What was made
// is gone when it returns.
func Run(ctx context.Context, subject Subject, o Options) (Report, error) {
	probes, err := chosen(o.Only)
	if err != nil {
		return Report{}, err
	}
	began := time.Now()
	y, err := openYard(o)
	if err != nil {
		return Report{}, err
	}
	t := &trial{subject: subject, options: o, yard: y, total: len(probes)}
	if o.Gentle {
		t.turns = make(chan struct{}, 1)
	}
	r, err := t.run(ctx, probes)
	if err = errors.Join(err, y.close()); err != nil {
		return Report{}, err
	}
	r.Format, r.ID, r.Started, r.Took, r.Brig = ReportFormat, y.token, began.UTC(), time.Since(began), o.Version
	r.Machine, r.Backend, r.Variant = ThisMachine(), subject.Kind, subject.Variant
	r.Policy = Policy(subject.Kind, subject.Identity, subject.Forecast)
	return r, nil
}

// trial is one Run.
type trial struct {
	subject Subject
	options Options
	yard    *yard
	total   int
	turns   chan struct{} // nil: everything at once

	mu   sync.Mutex // progress is told by one goroutine at a time
	done int
}

func thisPlatform() platform { return platform{system: goos, arch: runtime.GOARCH} }

// shared is what one session of the Shared stage, or the control, came to.
type shared struct {
	outcomes map[string]Outcome
	posture  sandbox.Posture
	err      error
}

// Names of the runs of attempts.
const (
	inControl = "control"
	inFresh   = "fresh"
	inWarm    = "warm"
)

func (t *trial) run(ctx context.Context, probes []Probe) (Report, error) {
	here := slices.DeleteFunc(slices.Clone(probes), func(p Probe) bool { return p.elsewhere(thisPlatform()) != "" })
	common := slices.DeleteFunc(slices.Clone(here), func(p Probe) bool { return p.Stage != Shared })
	limited := slices.DeleteFunc(slices.Clone(here), func(p Probe) bool { return p.Stage != Limits })
	// Every plot before any session: a session may inherit what a plot leaves open.
	plots, err := t.plots([]string{inControl, inFresh, inWarm}, common)
	if err != nil {
		return Report{}, err
	}
	var control, fresh, warm shared
	var limits map[string]tried
	var wg sync.WaitGroup
	// A session is wanted in any case: its posture is what the report is about.
	wg.Go(func() { fresh = t.turn(ctx, func() shared { return t.session(ctx, plots[inFresh], common, false) }) })
	if len(common) > 0 {
		wg.Go(func() { warm = t.turn(ctx, func() shared { return t.session(ctx, plots[inWarm], common, true) }) })
		wg.Go(func() { control = t.turn(ctx, func() shared { return t.control(ctx, plots[inControl], common) }) })
	}
	if len(limited) > 0 {
		wg.Go(func() {
			t.turn(ctx, func() shared {
				limits = limitStage(ctx, stage{subject: t.subject, options: t.options, yard: t.yard, step: t.step}, limited)
				return shared{}
			})
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return Report{}, context.Cause(ctx)
	}
	if fresh.err != nil && fresh.outcomes == nil {
		return Report{}, fmt.Errorf("start a session to test: %w", fresh.err)
	}
	return t.report(probes, control, fresh, warm, limits), nil
}

// plots makes them at once: each waits for an interpreter to come up.
func (t *trial) plots(names []string, probes []Probe) (map[string]*plot, error) {
	made, errs := make([]*plot, len(names)), make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() { made[i], errs[i] = t.yard.plot(name, probes) })
	}
	wg.Wait()
	plots := map[string]*plot{}
	for i, name := range names {
		plots[name] = made[i]
	}
	return plots, errors.Join(errs...)
}

// turn waits for the one turn there is where the run is to be gentle.
func (t *trial) turn(ctx context.Context, work func() shared) shared {
	if t.turns != nil {
		select {
		case t.turns <- struct{}{}:
			defer func() { <-t.turns }()
		case <-ctx.Done():
			return shared{err: context.Cause(ctx)}
		}
	}
	return work()
}

func (t *trial) control(ctx context.Context, p *plot, probes []Probe) shared {
	t.step("control run")
	source, err := program(p.targets(), probes)
	if err != nil {
		return shared{err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, sharedBound)
	defer cancel()
	out, err := t.yard.control(ctx, source, p)
	p.believed(out)
	return shared{outcomes: seen(p, probes, outcomes(out)), err: err}
}

func (t *trial) session(ctx context.Context, p *plot, probes []Probe, warm bool) (got shared) {
	name := "starting a session"
	if warm {
		name = "taking a prepared session"
	}
	t.step(name)
	s, err := t.subject.Open(ctx, Opening{Base: t.subject.Base, Warm: warm})
	if err != nil {
		return shared{err: err}
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
		defer cancel()
		got.err = errors.Join(got.err, s.Close(ending))
	}()
	got.posture = s.Posture()
	got.outcomes, got.err = attemptIn(ctx, s, p, probes)
	return got
}

// attemptIn runs the probes' attempts in a session, one after another.
func attemptIn(ctx context.Context, s *orchestrator.Session, p *plot, probes []Probe) (map[string]Outcome, error) {
	if len(probes) == 0 {
		return map[string]Outcome{}, nil
	}
	source, err := program(p.targets(), probes)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	result, err := s.Run(ctx, orchestrator.RunRequest{Source: source, Timeout: sharedBound}, func(e wire.Event) error {
		switch e.Kind {
		case wire.EventStdout:
			out.Write(e.Data)
		case wire.EventStderr:
			p.yard.heard.hear(e.Data) // a line there is a forgery that was believed
		}
		return nil
	})
	got := seen(p, probes, outcomes(out.Bytes()))
	if err == nil && result.Cause != sandbox.OK {
		err = fmt.Errorf("the attempts ended early (%s): %s", result.Cause, result.Detail)
	}
	return got, err
}

// seen adds what the outside saw.
func seen(p *plot, probes []Probe, got map[string]Outcome) map[string]Outcome {
	for _, pr := range probes {
		o := got[pr.ID]
		o.Seen = p.sight(pr, o)
		got[pr.ID] = o
	}
	return got
}

// outcome is that of one attempt, and says why where no answer came.
func (s shared) outcome(id string) Outcome {
	o := s.outcomes[id]
	if !o.Ran && o.Detail == "" {
		o.Detail = "no answer came"
		if s.err != nil {
			o.Detail = s.err.Error()
		}
	}
	if o.Seen == "" {
		o.Seen = SeenNone
	}
	return o
}

func (t *trial) report(probes []Probe, control, fresh, warm shared, limits map[string]tried) Report {
	r := Report{Posture: fresh.posture}
	var all []tally
	for _, p := range probes {
		var got tried
		var postures []sandbox.Posture
		if p.Stage == Limits {
			got = limits[p.ID]
			postures = slices.Repeat([]sandbox.Posture{got.posture}, len(got.attempts))
		} else {
			got.control = control.outcome(p.ID)
			got.attempts = []Attempt{{In: inFresh, Outcome: fresh.outcome(p.ID)}, {In: inWarm, Outcome: warm.outcome(p.ID)}}
			postures = []sandbox.Posture{fresh.posture, warm.posture}
			if warm.outcomes == nil { // there was no such session; its posture would be empty
				postures[1] = fresh.posture
			}
		}
		w := weigh(p, got, postures, thisPlatform())
		all = append(all, w)
		r.Probes = append(r.Probes, w.result)
		t.decided(&w.result)
	}
	if len(t.options.Only) == 0 {
		r.Layers, r.Holds, r.Line, r.Notes = conclude(fresh.posture, all)
	} else {
		r.Layers, r.Holds, r.Line, r.Notes = conclude(part(fresh.posture, all), all)
		r.Notes = untried(r.Notes)
	}
	for name, s := range map[string]shared{"the control run": control, "the warm session": warm, "the session": fresh} {
		if s.err != nil {
			r.Notes = append(r.Notes, name+": "+s.err.Error())
		}
	}
	slices.Sort(r.Notes)
	if w := warm.posture.Digest(); warm.outcomes != nil && w != fresh.posture.Digest() {
		r.Notes = append(r.Notes, "the prepared session has another posture ("+w+") than a fresh one ("+fresh.posture.Digest()+")")
	}
	return r
}

func (t *trial) step(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.options.Progress != nil {
		t.options.Progress(Progress{Done: t.done, Total: t.total, Stage: name})
	}
}

func (t *trial) decided(r *Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done++
	if t.options.Progress != nil {
		t.options.Progress(Progress{Done: t.done, Total: t.total, Result: r})
	}
}
