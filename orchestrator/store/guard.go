package store

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"brig/orchestrator/private"
)

const (
	guardFile = File + ".lock"
	guardStep = 5 * time.Millisecond
)

// takeGuard waits for the lock that serialises opening: checking, migrating and
// moving a file aside are one step for everybody else. The kernel drops the lock
// of a process that dies.
func takeGuard(ctx context.Context, dir string) (release func(), err error) {
	f, err := private.Open(filepath.Join(dir, guardFile), os.O_CREATE|os.O_RDWR)
	if err != nil {
		return nil, err
	}
	if err := private.Await(ctx, f, guardStep); err != nil {
		_ = f.Close() // nothing was written to it
		return nil, err
	}
	return func() { _ = f.Close() }, nil // closing gives the lock up, and nothing was written
}
