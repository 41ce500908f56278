package hostfallback

import (
	"strings"
	"testing"

	"brig/hostfallback/confine"
	"brig/orchestrator/sandbox"
)

// TestExplain: an end that the kernel's group brought about is told apart from one
// that brig measured, with the same cause.
func TestExplain(t *testing.T) {
	for _, c := range []struct {
		ended confine.Ended
		cause sandbox.Cause
		says  string
	}{
		{confine.Ended{Cause: confine.EndMemory, By: confine.ByCgroup, Limit: 64 << 20}, sandbox.MemoryOut, "the kernel refused its processes more than the 64.0 MiB of their control group"},
		{confine.Ended{Cause: confine.EndMemory, By: confine.ByWatch, Used: 65 << 20, Limit: 64 << 20}, sandbox.MemoryOut, "held 65.0 MiB of memory, the limit is 64.0 MiB"},
		{confine.Ended{Cause: confine.EndProcesses, By: confine.ByCgroup, Limit: 50}, sandbox.ProcessOut, "more than the 50 processes and threads of their control group"},
		{confine.Ended{Cause: confine.EndProcesses, By: confine.ByWatch, Used: 51, Limit: 50}, sandbox.ProcessOut, "51 processes and threads ran, the limit is 50"},
	} {
		i := &instance{process: &process{ended: &c.ended}}
		if got := i.explain(nil); got.Cause != c.cause || !strings.Contains(got.Detail, c.says) {
			t.Errorf("%+v: %+v", c.ended, got)
		}
	}
}
