package confine

import (
	"os"

	"golang.org/x/sys/unix"
)

// limits sets what the kernel can bound by itself. A limit that is already
// tighter stays as it is.
func (h *helper) limits() error {
	l := h.plan.Limits
	h.report.Limits = make(map[string]uint64)
	processes := uint64(l.Processes)
	if !h.order.Namespace.Applied {
		// The kernel counts every task of the user. In a user namespace of its own
		// the count starts at zero.
		processes += uint64(h.order.Tasks)
	}
	for _, r := range []struct {
		name     string
		resource int
		want     uint64
		set      bool
	}{
		{"core", unix.RLIMIT_CORE, 0, true},
		{"nofile", unix.RLIMIT_NOFILE, uint64(l.OpenFiles), l.OpenFiles > 0},
		{"fsize", unix.RLIMIT_FSIZE, uint64(l.FileSize), l.FileSize > 0},
		{"nproc", unix.RLIMIT_NPROC, processes, l.Processes > 0},
	} {
		if !r.set {
			continue
		}
		want, err := possible(r.resource, r.want)
		if err != nil {
			return err
		}
		if err := setLimit(r.resource, want); err != nil {
			return err
		}
		h.report.Limits[r.name] = want
	}
	if l.Memory > 0 {
		want, err := possible(unix.RLIMIT_DATA, uint64(l.Memory))
		if err != nil {
			return err
		}
		h.report.Limits["data"] = want // limitData sets it; a start where that fails is none
	}
	return h.affinity()
}

// limitData bounds what one process may hold. Not the address space:
// interpreters of other languages reserve more than they use. Heap, private
// mappings and thread stacks count as data.
func (h *helper) limitData() error {
	want, ok := h.report.Limits["data"]
	if !ok {
		return nil
	}
	return setLimit(unix.RLIMIT_DATA, want)
}

// possible is the wanted limit, or the one in force if that is tighter.
func possible(resource int, want uint64) (uint64, error) {
	var now unix.Rlimit
	if err := unix.Getrlimit(resource, &now); err != nil {
		return 0, os.NewSyscallError("getrlimit", err)
	}
	return min(want, now.Max), nil
}

// setLimit sets both limits. It is the function of x/sys and not a raw call: Go
// keeps the number of open files it found at its start and would restore it on exec.
func setLimit(resource int, n uint64) error {
	return os.NewSyscallError("setrlimit", unix.Setrlimit(resource, &unix.Rlimit{Cur: n, Max: n}))
}

// affinity narrows the process to as many processors as the limit says. Code
// can widen it again: it bounds what happens by accident.
func (h *helper) affinity() error {
	var now, want unix.CPUSet
	if err := unix.SchedGetaffinity(0, &now); err != nil {
		return os.NewSyscallError("sched_getaffinity", err)
	}
	var mine []int
	for cpu := range len(now) * 64 {
		if now.IsSet(cpu) {
			mine = append(mine, cpu)
		}
	}
	h.report.CPUs = len(mine)
	if h.plan.Limits.CPUs <= 0 || len(mine) <= h.plan.Limits.CPUs {
		return nil
	}
	// Sessions start at different processors, so that they do not share a few.
	for i := range h.plan.Limits.CPUs {
		want.Set(mine[(os.Getpid()+i)%len(mine)])
	}
	if err := unix.SchedSetaffinity(0, &want); err != nil {
		return os.NewSyscallError("sched_setaffinity", err)
	}
	h.report.CPUs, h.report.Narrowed = h.plan.Limits.CPUs, true
	return nil
}
