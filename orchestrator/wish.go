package orchestrator

import "brig/orchestrator/sandbox"

// wish is what a session asks of the base of its instances. It is comparable by
// its parts; the zero value is as configured.
type wish struct {
	base *sandbox.Base  // nil: as configured for the backend that is resolved
	most sandbox.Limits // what is lower than in the base counts; zero: no wish
}

func (w wish) any() bool { return w.base != nil || w.most != sandbox.Limits{} }

// base is what an instance of that backend is prepared with.
func (o *Orchestrator) base(kind sandbox.Kind, w wish) sandbox.Base {
	b := o.now().config.BaseFor(kind)
	if w.base != nil {
		b = *w.base
	}
	b.Limits, b.Lease = lower(b.Limits.WithDefaults(), w.most), o.leaseFor(kind)
	return b
}

// lower takes the lower one of each limit; a zero of most leaves it as it is.
func lower(l, most sandbox.Limits) sandbox.Limits {
	l.Memory, l.FileSize, l.Workspace = least(l.Memory, most.Memory), least(l.FileSize, most.FileSize), least(l.Workspace, most.Workspace)
	l.OutputKept, l.OutputLogged = least(l.OutputKept, most.OutputKept), least(l.OutputLogged, most.OutputLogged)
	l.Processes, l.MilliCPU, l.OpenFiles = least(l.Processes, most.Processes), least(l.MilliCPU, most.MilliCPU), least(l.OpenFiles, most.OpenFiles)
	return l
}

func least[N int | int64](have, most N) N {
	if most <= 0 {
		return have
	}
	return min(have, most)
}
