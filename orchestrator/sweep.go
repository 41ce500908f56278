package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"brig/orchestrator/sandbox"
)

// sweepBound is how long the sweep at the start may keep a short-lived brig waiting.
const sweepBound = 5 * time.Second

// Sweep removes what dead processes of the same owner left: instances,
// directories and records of sessions that were not to be kept, lock files. What a
// later brig can still take over stays; see Adopt. A backend that
// is not usable now is passed over; what it holds goes another time. What was
// removed is counted beside an error as well.
func (o *Orchestrator) Sweep(ctx context.Context) (Swept, error) {
	swept := Swept{Instances: map[sandbox.Kind]int{}}
	spared, err := o.shelter(ctx)
	keep := func(id sandbox.InstanceID) bool { return o.ownerLives(id) || spared.instance(id) }
	var wg sync.WaitGroup
	var mu sync.Mutex
	errs := []error{err}
	for kind, backend := range o.backends {
		if o.knownDown(kind) {
			continue
		}
		wg.Go(func() {
			n, err := backend.Sweep(ctx, o.options.Owner.ID(), keep)
			mu.Lock()
			defer mu.Unlock()
			if n > 0 {
				swept.Instances[kind] = n
			}
			var gone *sandbox.Unavailable
			if err != nil && !errors.As(err, &gone) {
				errs = append(errs, fmt.Errorf("sweep %s: %w", kind, err))
			}
		})
	}
	wg.Wait()
	if swept.Sessions, err = o.sweepHomes(ctx, spared); err == nil {
		err = o.strike(ctx, spared)
	}
	errs = append(errs, err)
	// Last: a lock file is what tells the others that its owner is dead.
	_, err = o.options.Owner.Sweep()
	return swept, errors.Join(append(errs, err)...)
}

// Swept is what a sweep removed.
type Swept struct {
	Instances map[sandbox.Kind]int `json:"instances"` // only what is not zero
	Sessions  int                  `json:"sessions"`  // directories of sessions
}

// Any says that there was something.
func (s Swept) Any() bool { return len(s.Instances) > 0 || s.Sessions > 0 }

// sweepOnce starts the first sweep beside the first session. Nobody hears of
// its errors: whoever wants to know calls Sweep.
func (o *Orchestrator) sweepOnce() {
	o.mu.Lock()
	first := !o.swept
	o.swept = true
	o.mu.Unlock()
	if first {
		o.spawn(func() {
			// Not ended by Close: a short-lived brig is the one that sweeps most.
			ctx, cancel := context.WithTimeoutCause(context.Background(), sweepBound, errTooSlow)
			defer cancel()
			_, _ = o.Sweep(ctx)
		})
	}
}

// ownerLives keeps instances of processes that run, this one included.
func (o *Orchestrator) ownerLives(id sandbox.InstanceID) bool {
	token, _, found := strings.Cut(string(id), "-")
	return found && o.options.Owner.Alive(token)
}

// knownDown says that the backend failed its latest probe. One that nobody asked is tried.
func (o *Orchestrator) knownDown(kind sandbox.Kind) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key, l := range o.probes {
		if key.kind != kind {
			continue
		}
		select {
		case <-l.done:
			if l.probe.Err != nil {
				return true
			}
		default:
		}
	}
	return false
}

// sweepHomes removes the directories of this installation's sessions whose brig is dead.
func (o *Orchestrator) sweepHomes(ctx context.Context, spared shelter) (removed int, err error) {
	homes := filepath.Join(o.options.Paths.Data, homesDir)
	entries, err := os.ReadDir(homes)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("list session directories: %w", err)
	}
	var errs []error
	for _, entry := range entries {
		dir := filepath.Join(homes, entry.Name())
		id, ours := strings.CutSuffix(entry.Name(), homeName(o.options.Owner.ID(), ""))
		token, _, numbered := strings.Cut(id, "-")
		if !ours || !numbered || len(token) != len(o.options.Owner.Token()) || o.options.Owner.Alive(token) || kept(dir) || spared.home(dir, token) {
			continue
		}
		if ctx.Err() != nil {
			return removed, errors.Join(append(errs, context.Cause(ctx))...)
		}
		err := removeTree(dir)
		if err == nil {
			removed++
		}
		errs = append(errs, err)
	}
	return removed, errors.Join(errs...)
}

// kept says that a session directory must stay; where it cannot tell, it stays.
func kept(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, keepFile))
	return !errors.Is(err, fs.ErrNotExist)
}
