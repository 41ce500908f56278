package selftest

import (
	"slices"
	"strings"

	"brig/orchestrator/sandbox"
)

// part is a posture as a run of some probes only can judge it: layers that none of
// them is about are not held against it.
func part(posture sandbox.Posture, all []tally) sandbox.Posture {
	posture.Promised = slices.DeleteFunc(slices.Clone(posture.Promised), func(id sandbox.LayerID) bool {
		return !slices.ContainsFunc(all, func(t tally) bool { return t.probe.Layer == id })
	})
	return posture
}

// untried removes the notes about layers that nobody asked for.
func untried(notes []string) []string {
	return slices.DeleteFunc(notes, func(n string) bool { return strings.HasSuffix(n, noProbe) })
}
