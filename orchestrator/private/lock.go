package private

import (
	"context"
	"fmt"
	"os"
	"time"
)

// Locks are of the open file, not of the process: a second open in the same process
// sees one as held. The kernel drops it with the last handle, however the process
// ends. On a system without file locks every call fails with errors.ErrUnsupported.

// Lock waits for the exclusive lock of a file, for as long as it takes.
func Lock(f *os.File) error { return take(f, exclusive) }

// TryLock takes the exclusive lock of a file if nobody has it.
func TryLock(f *os.File) (held bool, err error) { return try(f, exclusive) }

// Free tells whether nobody has the exclusive lock of a file. It takes a shared one,
// so that two who ask at the same time do not take each other for the holder.
func Free(f *os.File) (bool, error) { return try(f, shared) }

// Await takes the exclusive lock of a file, trying again every step until ctx ends:
// no system waits for one in a way that a context could cancel.
func Await(ctx context.Context, f *os.File, step time.Duration) error {
	var tick *time.Ticker
	for {
		held, err := TryLock(f)
		if err != nil {
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		if held {
			return nil
		}
		if tick == nil { // mostly nobody has it
			tick = time.NewTicker(step)
			defer tick.Stop()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", f.Name(), context.Cause(ctx))
		}
	}
}
