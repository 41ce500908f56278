package sandbox

import (
	"errors"
	"fmt"

	"brig/orchestrator/wire"
)

// FromWire turns an error of a wire.Peer into the contract's: every backend that
// talks to a runner says the same of the same end. ending is asked only where the
// connection was lost; it waits until it is known why, and is bounded by whoever
// passes it. What is no word of the wire stays as it is.
func FromWire(err error, ending func() Ending) error {
	var lost *wire.LostError
	switch {
	case errors.Is(err, wire.ErrNotRunning):
		return fmt.Errorf("interrupt: %w", ErrNotRunning)
	case !errors.As(err, &lost):
		return err
	case errors.Is(err, wire.ErrEnded):
		return &Lost{Ending: Ending{Cause: Exit, Detail: "its one program has run"}, Err: lost.Err}
	}
	return &Lost{Ending: ending(), Err: lost.Err}
}
