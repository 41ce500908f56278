package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const (
	guardFile = File + ".lock"
	guardStep = 5 * time.Millisecond
)

// takeGuard waits for the lock that serialises opening: checking, migrating and
// moving a file aside are one step for everybody else. The kernel drops the lock
// of a process that dies.
func takeGuard(ctx context.Context, dir string) (release func(), err error) {
	name := filepath.Join(dir, guardFile)
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR|noFollow, fileMode)
	if err != nil {
		return nil, err
	}
	step := time.NewTicker(guardStep)
	defer step.Stop()
	for {
		held, err := tryLock(f)
		if err != nil {
			_ = f.Close() // nothing was written to it
			return nil, fmt.Errorf("lock %s: %w", name, err)
		}
		if held {
			return func() { _ = f.Close() }, nil // closing gives the lock up, and nothing was written
		}
		select {
		case <-step.C:
		case <-ctx.Done():
			_ = f.Close()
			return nil, fmt.Errorf("wait for %s: %w", name, context.Cause(ctx))
		}
	}
}
