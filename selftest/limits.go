package selftest

import (
	"context"

	"brig/orchestrator/sandbox"
)

// stage is what a stage of a run works with.
type stage struct {
	subject Subject
	options Options
	yard    *yard
	step    func(string) // tells the person what begins
}

// tried is one probe with its control and its attempts, still without a verdict.
type tried struct {
	control  Outcome
	attempts []Attempt
	posture  sandbox.Posture // of the session that it was attempted in
}

// limitStage attempts the probes whose sessions have small limits.
func limitStage(ctx context.Context, st stage, probes []Probe) map[string]tried {
	return limited(ctx, st, probes)
}
