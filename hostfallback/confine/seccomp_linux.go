package confine

import (
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	"brig/hostfallback/internal/sys"
)

// filter chooses the variant of the filter from what the other layers reached.
func (h *helper) filter() Filter {
	return Filter{
		Inet:   h.inet(),
		Narrow: h.plan.Zygote != nil,
		Unix:   UnixConfined(h.report),
		// A read-only view protects the files outside and leaves the calls usable inside.
		Metadata: h.report.Namespace.Applied || h.plan.Mode != ModeRequire,
	}
}

func (h *helper) seccomp() error {
	r := &h.report.Seccomp
	if h.plan.Mode == ModeOff {
		r.Code = CodeOff
		return nil
	}
	if h.plan.without(StageSeccomp) {
		return nil
	}
	arch, ok := archOf(runtime.GOARCH)
	if !ok {
		r.Code = CodeSeccompArch
		return nil
	}
	r.Arch, r.Filter = arch.String(), h.filter()
	program := r.Filter.Program(arch)
	raw := make([]unix.SockFilter, len(program))
	for i, in := range program {
		raw[i] = unix.SockFilter{Code: in.Code, Jt: in.JT, Jf: in.JF, K: in.K}
	}
	err := sys.SetFilter(raw, true)
	if errors.Is(err, unix.EINVAL) { // kernels before 4.17 do not know the flag
		err = sys.SetFilter(raw, false)
	}
	switch {
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EINVAL):
		r.Code, r.Errno = CodeSeccompNotBuilt, errnoName(err)
		return nil
	case err != nil:
		return fmt.Errorf("install the filter: %w", err)
	}
	r.Applied, r.Length, r.Hash = true, len(program), Hash(program)
	return nil
}
