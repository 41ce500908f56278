package hostfallback

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"brig/hostfallback/confine"
	"brig/orchestrator/runner"
)

// The runner's files are shared by all instances of all brigs of one version, in
// a directory named after their content. Whoever uses one holds a shared lock on
// the file beside it for as long as it can start or has an instance; a version
// that nobody holds any more is removed by the sweep of another one.

const lockSuffix = ".lock"

// runners is the hold of one backend on the runner's directory.
type runners struct {
	mu      sync.Mutex
	release func() // nil: nothing was installed yet
	script  string // that was installed
	hash    string // of the runner; it takes longer than the look whether its files are as they were
}

func (o Options) runners() string { return filepath.Join(o.Cache, "runner") }

// install makes sure that the runner's files are in place, and that they stay.
func (b *Backend) install() (script string, err error) {
	if script, ok := b.held.installed(); ok && runner.Intact(script) {
		return script, nil
	}
	b.held.mu.Lock()
	defer b.held.mu.Unlock()
	if script, err = runner.Install(b.options.runners()); err != nil || b.held.release != nil {
		return script, err
	}
	if b.held.release, err = share(filepath.Dir(script) + lockSuffix); err != nil {
		return "", fmt.Errorf("hold the runner's files: %w", err)
	}
	b.held.script, b.held.hash = script, runner.Hash()
	// Another brig may have removed them before they were held.
	return runner.Install(b.options.runners())
}

// installed is the runner's program, if it was installed and is held.
func (r *runners) installed() (script string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.script, r.release != nil
}

// trusted is the hash of the runner that was installed.
func (r *runners) trusted() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hash
}

func (r *runners) drop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.release != nil {
		r.release()
		r.release = nil // what stays noted is of this program, and the same for good
	}
}

// sweepRunners removes the files of runners that no brig uses, and what an
// installation that was killed left. They are nobody's in particular: the cache
// belongs to the user, and a lock tells who is alive.
func (b *Backend) sweepRunners(ctx context.Context) error {
	dir := b.options.runners()
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list the runner's files: %w", err)
	}
	var failed error
	for _, e := range entries {
		name := e.Name()
		if ctx.Err() != nil {
			return errors.Join(failed, context.Cause(ctx))
		}
		if !e.IsDir() || strings.HasPrefix(runner.Hash(), name) {
			continue
		}
		if strings.HasPrefix(name, ".") {
			// Of an installation that is under way, or was killed.
			if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > freshFor {
				failed = errors.Join(failed, confine.RemoveTree(filepath.Join(dir, name)))
			}
			continue
		}
		failed = errors.Join(failed, removeRunner(filepath.Join(dir, name)))
	}
	if failed != nil {
		return fmt.Errorf("remove the files of earlier runners: %w", failed)
	}
	return nil
}

// removeRunner removes one directory that nobody holds, and then its lock.
func removeRunner(dir string) error {
	lock := dir + lockSuffix
	release, ok, err := abandoned(lock)
	switch {
	case errors.Is(err, os.ErrNotExist):
		// Being installed at this moment, or left in the middle of that.
		if info, err := os.Stat(dir); err != nil || time.Since(info.ModTime()) < freshFor {
			return nil
		}
		return confine.RemoveTree(dir)
	case err != nil:
		return fmt.Errorf("take a runner's lock: %w", err)
	case !ok:
		return nil
	}
	defer release()
	if err := confine.RemoveTree(dir); err != nil {
		return err
	}
	return os.Remove(lock)
}
