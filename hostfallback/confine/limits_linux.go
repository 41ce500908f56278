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
		// Not the address space: interpreters of other languages reserve more
		// than they use. Heap, private mappings and thread stacks count as data.
		{"data", unix.RLIMIT_DATA, uint64(l.Memory), l.Memory > 0},
	} {
		if !r.set {
			continue
		}
		var now unix.Rlimit
		if err := unix.Getrlimit(r.resource, &now); err != nil {
			return os.NewSyscallError("getrlimit "+r.name, err)
		}
		want := min(r.want, now.Max)
		// Setrlimit of this package and not a raw call: Go keeps the number of
		// open files it found at its start and would restore it on exec.
		if err := unix.Setrlimit(r.resource, &unix.Rlimit{Cur: want, Max: want}); err != nil {
			return os.NewSyscallError("setrlimit "+r.name, err)
		}
		h.report.Limits[r.name] = want
	}
	return h.affinity()
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
