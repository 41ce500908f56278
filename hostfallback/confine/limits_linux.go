package confine

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// limits sets what the kernel can bound by itself. A limit that is already
// tighter stays as it is.
func (h *helper) limits() error {
	l := h.plan.Limits
	h.report.Limits = make(map[string]uint64)
	if h.plan.without("rlimits") {
		return h.affinity()
	}
	marked, err := setMark(h.plan.Token)
	if err != nil {
		return err
	}
	h.report.Mark = marked
	processes := uint64(l.Processes)
	if !h.order.Namespace.Applied {
		// The kernel counts every task of the user. In a user namespace of its own
		// the count starts at zero.
		processes += uint64(h.order.Tasks)
	}
	if h.order.Grouped {
		processes++ // so that it is the group that refuses: that leaves evidence
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
		if h.report.Limits[r.name], err = setLimit(r.resource, want); err != nil {
			return err
		}
	}
	if l.Memory > 0 {
		want, err := possible(unix.RLIMIT_DATA, uint64(l.Memory))
		if err != nil {
			return err
		}
		h.report.Limits["data"] = want // limitData sets it and reads it back; a start where that fails is none
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
	got, err := setLimit(unix.RLIMIT_DATA, want)
	if err == nil && got != want {
		err = fmt.Errorf("set a limit of %d bytes of data, and it is %d", want, got)
	}
	return err
}

// possible is the wanted limit, or the one in force if that is tighter.
func possible(resource int, want uint64) (uint64, error) {
	var now unix.Rlimit
	if err := unix.Getrlimit(resource, &now); err != nil {
		return 0, os.NewSyscallError("getrlimit", err)
	}
	return min(want, now.Max), nil
}

// setLimit sets both limits and reads back what is in force. It is the function
// of x/sys and not a raw call: Go keeps the number of open files it found at its
// start and would restore it on exec.
func setLimit(resource int, n uint64) (uint64, error) {
	if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: n, Max: n}); err != nil {
		return 0, os.NewSyscallError("setrlimit", err)
	}
	var now unix.Rlimit
	if err := unix.Getrlimit(resource, &now); err != nil {
		return 0, os.NewSyscallError("getrlimit", err)
	}
	return now.Max, nil
}

// affinity narrows the process to as many processors as the limit says. Code
// can widen it again: it bounds what happens by accident.
func (h *helper) affinity() error {
	mine, err := processors()
	if err != nil {
		return err
	}
	if limit := h.plan.Limits.CPUs; limit > 0 && len(mine) > limit {
		var want unix.CPUSet
		// Sessions start at different processors, so that they do not share a few.
		for i := range limit {
			want.Set(mine[(h.order.Turn+i)%len(mine)])
		}
		if err := unix.SchedSetaffinity(0, &want); err != nil {
			return os.NewSyscallError("sched_setaffinity", err)
		}
		h.report.Narrowed = true
		if mine, err = processors(); err != nil {
			return err
		}
	}
	h.report.CPUs, h.report.Processors = len(mine), mine
	return nil
}

// processors are the numbers of those that this thread may use.
func processors() ([]int, error) {
	var now unix.CPUSet
	if err := unix.SchedGetaffinity(0, &now); err != nil {
		return nil, os.NewSyscallError("sched_getaffinity", err)
	}
	var mine []int
	for cpu := range len(now) * 64 {
		if now.IsSet(cpu) {
			mine = append(mine, cpu)
		}
	}
	return mine, nil
}
