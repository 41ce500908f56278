package selftest

import (
	"testing"

	"brig/orchestrator/sandbox"
)

// TestLimitGroups: every probe of the stage is in one group, and where the kernel counts
// all processes of a user, the one that starts many is alone.
func TestLimitGroups(t *testing.T) {
	for _, perUser := range []bool{false, true} {
		var all []string
		for _, ids := range limitGroups(perUser) {
			all = append(all, ids...)
			if alone := len(ids) == 1; ids[0] == crowdProbe && alone != perUser {
				t.Errorf("per user %v: %v", perUser, ids)
			}
		}
		for _, p := range limitProbes() {
			n := 0
			for _, id := range all {
				if id == p.ID {
					n++
				}
			}
			if p.ID != wallClock && n != 1 {
				t.Errorf("per user %v: %s is not in one group", perUser, p.ID)
			}
		}
	}
	l := limiting{stage: stage{subject: Subject{Forecast: []sandbox.Layer{{ID: sandbox.ProcessLimit, State: sandbox.Partial, Code: "nproc-per-user"}}}}}
	if !l.perUser() || (&limiting{}).perUser() {
		t.Error("the forecast is not heeded")
	}
}
