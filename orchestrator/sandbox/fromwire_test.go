package sandbox

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"brig/orchestrator/wire"
)

func TestFromWire(t *testing.T) {
	killed := Ending{Cause: Killed, Detail: "somebody killed it"}
	asked := 0
	ending := func() Ending { asked++; return killed }
	for _, c := range []struct {
		err   error
		is    error
		lost  Cause // empty: not lost
		asked bool
	}{
		{err: nil},
		{err: io.ErrShortBuffer, is: io.ErrShortBuffer},
		{err: wire.ErrBusy, is: wire.ErrBusy},
		{err: wire.ErrNotRunning, is: ErrNotRunning},
		{err: &wire.LostError{Err: io.EOF}, is: io.EOF, lost: Killed, asked: true},
		{err: fmt.Errorf("call: %w", &wire.LostError{Err: wire.ErrClosed}), is: wire.ErrClosed, lost: Killed, asked: true},
		{err: &wire.LostError{Err: wire.ErrEnded}, is: wire.ErrEnded, lost: Exit},
	} {
		asked = 0
		got := FromWire(c.err, ending)
		var lost *Lost
		if !errors.Is(got, c.is) || errors.As(got, &lost) != (c.lost != "") || (asked > 0) != c.asked {
			t.Errorf("%v: %v, asked %d", c.err, got, asked)
		}
		if lost != nil && (lost.Ending.Cause != c.lost || lost.Ending.Detail == "") {
			t.Errorf("%v: ending %+v", c.err, lost.Ending)
		}
	}
	var refusal *wire.CallError
	if err := FromWire(&wire.CallError{Code: wire.CodeBusy}, ending); !errors.As(err, &refusal) {
		t.Errorf("a refusal became %v", err)
	}
}
