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
// is not usable now is passed over; what it holds goes another time.
func (o *Orchestrator) Sweep(ctx context.Context) error {
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
			_, err := backend.Sweep(ctx, o.options.Owner.ID(), keep)
			var gone *sandbox.Unavailable
			if err != nil && !errors.As(err, &gone) {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, fmt.Errorf("sweep %s: %w", kind, err))
			}
		})
	}
	wg.Wait()
	if err = o.sweepHomes(ctx, spared); err == nil {
		err = o.strike(ctx, spared)
	}
	errs = append(errs, err)
	// Last: a lock file is what tells the others that its owner is dead.
	_, err = o.options.Owner.Sweep()
	return errors.Join(append(errs, err)...)
}

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
			_ = o.Sweep(ctx)
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

// sweepHomes removes the directories of sessions whose brig is dead.
func (o *Orchestrator) sweepHomes(ctx context.Context, spared shelter) error {
	homes := filepath.Join(o.options.Paths.Data, homesDir)
	entries, err := os.ReadDir(homes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list session directories: %w", err)
	}
	var errs []error
	for _, entry := range entries {
		dir := filepath.Join(homes, entry.Name())
		token, _, ours := strings.Cut(entry.Name(), "-")
		if !ours || len(token) != len(o.options.Owner.Token()) || o.options.Owner.Alive(token) || kept(dir) || spared.home(dir, token) {
			continue
		}
		if ctx.Err() != nil {
			return errors.Join(append(errs, context.Cause(ctx))...)
		}
		errs = append(errs, removeTree(dir))
	}
	return errors.Join(errs...)
}

// kept says that a session directory must stay; where it cannot tell, it stays.
func kept(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, keepFile))
	return !errors.Is(err, fs.ErrNotExist)
}
