package orchestrator

import (
	"context"
	"testing"
	"time"

	"brig/orchestrator/sandbox"
	. "brig/orchestrator/sandbox/sandboxtest"
	"brig/orchestrator/wire"
)

// TestRunnerLimit: the runner is told a limit of its own, after brig's.
func TestRunnerLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newRig(t).open(t, SessionOptions{})
		instance, told := s.bound.instance, time.Duration(0)
		s.bound.instance = taken{instance, func(ctx context.Context, req wire.Run, emit func(wire.Event) error) (wire.Exit, error) {
			told = req.Limit
			return instance.Run(ctx, req, emit)
		}}
		r, _ := run(t, s, RunRequest{Timeout: 3 * time.Second}, Print("x"))
		want(t, r, sandbox.OK, wire.StateKept)
		if least := 3*time.Second + s.o.now().timeoutGrace + answerAfterHard; told <= least || told > least+time.Minute {
			t.Errorf("the runner was told %s", told)
		}
	})
}
