//go:build brig_sabotage

package hostfallback

import (
	"slices"

	"brig/hostfallback/confine"
)

// sabotaged is what is left out; see sabotage_off.go.
type sabotaged struct {
	// Sabotage are names of Sabotages.
	Sabotage []string
	// Environ is what the instance gets in addition with "env".
	Environ func() []string
}

// Sabotages are the names that the host sandbox knows.
func Sabotages() []string { return append(confine.Sabotages(), "env") }

// spoil adds to a plan what it is to leave out.
func (s sabotaged) spoil(plan *confine.Plan) {
	plan.Sabotage = s.Sabotage
	if slices.Contains(s.Sabotage, "env") {
		plan.Env = append(plan.Env, s.Environ()...)
	}
}

// any tells whether a report has to differ from what a whole sandbox reports.
func (s sabotaged) any() bool { return len(s.Sabotage) > 0 }
