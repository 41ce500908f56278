package hostfallback

import (
	"os"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/sandbox/sandboxtest"
)

// TestConformance is the suite of every backend. Instances are lost in turn by
// the end of their supervisor and by that of their runner.
func TestConformance(t *testing.T) {
	var losses atomic.Int64
	sandboxtest.Run(t, sandboxtest.Factory{
		New:    func(t testing.TB) sandbox.Backend { return testBackend(t) },
		Base:   testBase(),
		Python: true,
		Tree: func(t testing.TB, i sandbox.Instance) []sandboxtest.Process {
			return sandboxtest.ProcTree(i.(*instance).process.handle.Pid)
		},
		Alive: func(t testing.TB, i sandbox.Instance, p sandboxtest.Process) bool { return sandboxtest.ProcAlive(p) },
		Lose: func(t testing.TB, i sandbox.Instance) {
			victim := i.(*instance).process.handle.Pid
			if losses.Add(1)%2 == 0 {
				victim = i.(*instance).started.PID
			}
			if err := unix.Kill(victim, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
		},
		LosePrepared: func(t testing.TB, p sandbox.Prepared) {
			if err := unix.Kill(p.(*prepared).process.handle.Pid, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
		},
		Count: func(t testing.TB, b sandbox.Backend) int {
			entries, err := os.ReadDir(b.(*Backend).options.instances())
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			return len(entries)
		},
	})
}
