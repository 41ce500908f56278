package sandboxtest

import (
	"runtime"
	"strings"
	"testing"
	"time"
)

// CheckGoroutines fails the test if more goroutines run at its end, after all
// its later cleanups, than now. Call it first. It gives stragglers some time:
// a goroutine that has been waited for may still be on its last instructions.
func CheckGoroutines(t testing.TB) {
	t.Helper()
	checkGoroutines(t, 10*time.Second)
}

func checkGoroutines(t testing.TB, grace time.Duration) {
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		deadline := time.Now().Add(grace)
		for runtime.NumGoroutine() > before {
			if time.Now().After(deadline) {
				t.Errorf("%d goroutines at the end, %d at the start:\n%s", runtime.NumGoroutine(), before, stacks())
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
}

// stacks is every goroutine but the testing package's own.
func stacks() string {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var out []string
	for _, g := range strings.Split(string(buf), "\n\n") {
		if !strings.Contains(g, "testing.(*T).Run") && !strings.Contains(g, "testing.tRunner.func") {
			out = append(out, g)
		}
	}
	return strings.Join(out, "\n\n")
}
