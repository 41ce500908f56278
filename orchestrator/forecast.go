package orchestrator

import (
	"context"
	"fmt"

	"brig/orchestrator/sandbox"
)

// Forecast is what an instance of that backend would enforce as configured, or why
// there can be none. Answers are shared and believed for seconds, as a resolution's are.
func (o *Orchestrator) Forecast(ctx context.Context, kind sandbox.Kind) (sandbox.Posture, error) {
	l, err := o.look(kind, o.base(kind, wish{}))
	if err != nil {
		return sandbox.Posture{}, fmt.Errorf("forecast: %w", err)
	}
	if l == nil {
		return sandbox.Posture{}, fmt.Errorf("forecast: this build of brig has no %s backend", kind)
	}
	if err := l.wait(ctx, func() {}); err != nil {
		return sandbox.Posture{}, fmt.Errorf("forecast: %w", err)
	}
	p := l.probe.forecast()
	p.Backend = kind
	return p, l.probe.Err
}
