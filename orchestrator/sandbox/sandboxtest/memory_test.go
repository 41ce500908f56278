package sandboxtest

import (
	"slices"
	"testing"

	"brig/orchestrator/sandbox"
)

// memoryFactory makes Memory backends for Run.
func memoryFactory() Factory {
	table := func(i sandbox.Instance) *table { return i.(*memoryInstance).runner.table }
	return Factory{
		New: func(testing.TB) sandbox.Backend { return NewMemory(MemoryOptions{}) },
		Tree: func(_ testing.TB, i sandbox.Instance) []Process {
			return table(i).list()
		},
		Alive: func(_ testing.TB, i sandbox.Instance, p Process) bool {
			return slices.Contains(table(i).list(), p)
		},
		Lose: func(_ testing.TB, i sandbox.Instance) {
			i.(*memoryInstance).lose(sandbox.Ending{Cause: sandbox.Killed, Detail: "killed by the test"})
		},
		Count: func(_ testing.TB, b sandbox.Backend) int { return b.(*Memory).Instances() },
	}
}

func TestMemory(t *testing.T) { Run(t, memoryFactory()) }
