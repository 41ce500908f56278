package orchestrator

import (
	"fmt"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// counted is what was read from outside of an instance over one run, where
// nothing inside can forge it. It overrules what the runner says about the same.
type counted struct {
	OOMKills int64
	Forks    int64 // refused at the process limit; -1: not counted here
}

// reading is the state of an instance's counters before a run.
type reading struct {
	meter  sandbox.Meter // nil: there is none, or it cannot be read
	before sandbox.Counters
}

func readBefore(i sandbox.Instance) reading {
	meter, can := i.(sandbox.Meter)
	if !can {
		return reading{}
	}
	before, ok := meter.Counters()
	if !ok {
		return reading{}
	}
	return reading{meter, before}
}

// since is what happened since the reading; nil where that cannot be known.
func (r reading) since() *counted {
	if r.meter == nil {
		return nil
	}
	now, ok := r.meter.Counters()
	if !ok {
		return nil
	}
	c := counted{OOMKills: max(now.OOMKills-r.before.OOMKills, 0), Forks: -1}
	if now.ForkFailures >= 0 && r.before.ForkFailures >= 0 {
		c.Forks = max(now.ForkFailures-r.before.ForkFailures, 0)
	}
	return &c
}

// oomKills is how many processes the kernel killed at the memory limit: as seen
// from outside, and only where nobody can look, as the runner says.
func (ev evidence) oomKills(exit wire.Exit) int64 {
	if ev.Counted != nil {
		return ev.Counted.OOMKills
	}
	return int64(exit.OOMKills)
}

// forksCounted says that a refused process would have been seen from outside.
func (ev evidence) forksCounted() bool { return ev.Counted != nil && ev.Counted.Forks >= 0 }

// forkHint tells of processes that were refused at the limit, where they are counted.
func forkHint(ev evidence) string {
	switch {
	case !ev.forksCounted() || ev.Counted.Forks == 0:
		return ""
	case ev.Counted.Forks == 1:
		return fmt.Sprintf("a process or thread was refused: the limit is %d processes and threads", ev.Limits.Processes)
	}
	return fmt.Sprintf("%d processes or threads were refused: the limit is %d processes and threads", ev.Counted.Forks, ev.Limits.Processes)
}
