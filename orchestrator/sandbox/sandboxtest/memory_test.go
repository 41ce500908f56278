package sandboxtest

import (
	"fmt"
	"slices"
	"testing"

	"brig/orchestrator/sandbox"
)

// memoryOf is the fake behind an instance.
func memoryOf(i sandbox.Instance) *memoryInstance {
	switch i := i.(type) {
	case *memoryInstance:
		return i
	case *keptInstance:
		return i.memoryInstance
	case faultyInstance:
		return i.memoryInstance
	case faultyKept:
		return i.memoryInstance
	}
	panic(fmt.Sprintf("BUG: a %T", i))
}

// memoryFactory makes Memory backends for Run.
func memoryFactory() Factory {
	table := func(i sandbox.Instance) *table { return memoryOf(i).node.runner.table }
	return Factory{
		New:   func(testing.TB) sandbox.Backend { return NewMemory(MemoryOptions{Owner: "suite"}) },
		Owner: "suite",
		Later: func(_ testing.TB, b sandbox.Backend) sandbox.Backend { return b.(*Memory).Successor() },
		Tree: func(_ testing.TB, i sandbox.Instance) []Process {
			return table(i).list()
		},
		Alive: func(_ testing.TB, i sandbox.Instance, p Process) bool {
			return slices.Contains(table(i).list(), p)
		},
		Lose: func(_ testing.TB, i sandbox.Instance) {
			memoryOf(i).node.lose(sandbox.Ending{Cause: sandbox.Killed, Detail: "killed by the test"})
		},
		LosePrepared: func(_ testing.TB, p sandbox.Prepared) {
			p.(interface{ lose(sandbox.Ending) }).lose(sandbox.Ending{Cause: sandbox.Killed, Detail: "killed by the test"})
		},
		Count: func(_ testing.TB, b sandbox.Backend) int { return b.(*Memory).Instances() },
	}
}

func TestMemory(t *testing.T) { Run(t, memoryFactory()) }
