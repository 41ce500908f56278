package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"brig/orchestrator/sandbox"
)

// flagsDir holds, below the state directory, a file named after each process that
// has kept sessions. It tells a brig that does not open the store that what that
// process left is not its business.
const flagsDir = "kept"

// hoist makes the flag of this process, before it keeps anything.
func (o *Orchestrator) hoist() error {
	dir := filepath.Join(o.options.Paths.State, flagsDir)
	if err := os.MkdirAll(dir, homeMode); err != nil {
		return fmt.Errorf("note that sessions are kept: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, o.options.Owner.Token()), os.O_CREATE|os.O_WRONLY, keepsMode)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return fmt.Errorf("note that sessions are kept: %w", err)
	}
	return nil
}

// shelter is what a sweep spares although its process is dead.
type shelter struct {
	flags     string                      // directory
	exact     bool                        // the store was read; otherwise the flags decide
	instances map[sandbox.InstanceID]bool // that live in a session, or can still be taken over
	homes     map[string]bool
	orphans   string // why homes may lack their record; they are kept for good then
}

// shelter reads what is to be spared, and forgets what need not be. On error it
// spares everything of processes that kept sessions.
func (o *Orchestrator) shelter(ctx context.Context) (shelter, error) {
	sh := shelter{flags: filepath.Join(o.options.Paths.State, flagsDir)}
	db := o.options.Store
	if db == nil {
		return sh, nil
	}
	rows, err := db.Sessions(ctx)
	if err != nil {
		return sh, err
	}
	orphans, err := db.Orphans(ctx)
	if err != nil {
		return sh, err
	}
	full := shelter{flags: sh.flags, exact: true, instances: map[sandbox.InstanceID]bool{}, homes: map[string]bool{}, orphans: orphans}
	for _, row := range rows {
		dead := !o.options.Owner.Alive(row.Process)
		if dead && !row.Kept && row.Err == nil {
			if err := db.Forget(ctx, row.ID, row.Process); err != nil {
				full.homes[row.Home] = true // somebody else's by now, or it cannot be told
			}
			continue
		}
		full.homes[row.Home] = true
		i := row.Instance
		if i == nil {
			continue
		}
		if dead && !i.Orphaned.IsZero() && time.Since(i.Orphaned) > 2*i.Base.Lease+leaseSlack {
			continue // its lease is long over: nobody can take it over any more
		}
		if dead && i.Orphaned.IsZero() {
			if err := db.Orphan(ctx, i.ID, time.Now()); err != nil {
				return sh, err
			}
		}
		full.instances[i.ID], full.instances[i.Handle.Label] = true, true
	}
	return full, nil
}

// flagged says that the process with that token kept sessions; where it cannot tell, it did.
func (sh shelter) flagged(token string) bool {
	_, err := os.Lstat(filepath.Join(sh.flags, token))
	return !errors.Is(err, fs.ErrNotExist)
}

// instance says whether to spare what a dead process left under that id.
func (sh shelter) instance(id sandbox.InstanceID) bool {
	if sh.exact {
		return sh.instances[id]
	}
	token, _, _ := strings.Cut(string(id), "-")
	return sh.flagged(token)
}

// home says whether to spare a session directory of a dead process.
func (sh shelter) home(dir, token string) bool {
	switch {
	case !sh.exact:
		return sh.flagged(token)
	case sh.homes[dir]:
		return true
	case sh.orphans != "":
		// The record that it belonged to is gone. A person decides what becomes of it.
		_, err := home{dir: dir}.keep()
		return err == nil || !errors.Is(err, fs.ErrNotExist)
	}
	return false
}

// strike takes down the flags of dead processes of which nothing is left to spare.
func (o *Orchestrator) strike(ctx context.Context, sh shelter) error {
	if !sh.exact {
		return nil
	}
	if sh.orphans != "" {
		if err := o.options.Store.SeenToOrphans(ctx); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(sh.flags)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list who kept sessions: %w", err)
	}
	needed := map[string]bool{}
	for id := range sh.instances {
		token, _, _ := strings.Cut(string(id), "-")
		needed[token] = true
	}
	for dir := range sh.homes {
		token, _, _ := strings.Cut(filepath.Base(dir), "-")
		needed[token] = true
	}
	var errs []error
	for _, entry := range entries {
		if token := entry.Name(); !needed[token] && !o.options.Owner.Alive(token) {
			errs = append(errs, os.Remove(filepath.Join(sh.flags, token)))
		}
	}
	return errors.Join(errs...)
}
