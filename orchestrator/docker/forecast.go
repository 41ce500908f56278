package docker

import (
	"context"
	"errors"

	"brig/orchestrator/sandbox"
)

// Capabilities forecasts from what the engine says about itself and about its
// images. Only a posture, read back from a container, is evidence.
func (b *Backend) Capabilities(ctx context.Context, base sandbox.Base) ([]sandbox.Layer, error) {
	e, err := b.current(ctx)
	if err != nil {
		return nil, err
	}
	a, err := e.accept(base)
	if err != nil {
		return nil, err
	}
	var missing *sandbox.Unavailable
	if err := b.foresee(ctx, e, a.image); errors.As(err, &missing) {
		return nil, err
	} // any other error is for the start to meet: a busy engine may be quicker then
	kernels := map[kernel]string{
		sharedKernel: "shared kernel behind the system call filter", gvisorKernel: "gVisor's own kernel",
		kataKernel: "a virtual machine's own kernel (Kata)",
	}
	mechanisms := map[sandbox.LayerID]string{
		sandbox.FSWrite:       "read-only root; workspace and in-memory scratch only",
		sandbox.FSRead:        "own mount namespace with the image and the workspace",
		sandbox.NetOutbound:   "own network namespace without an interface",
		sandbox.NetLoopback:   "a loopback of the container's own",
		sandbox.UnixSockets:   "own mount, network and ipc namespaces",
		sandbox.ProcessLimit:  "cgroup pids",
		sandbox.MemoryLimit:   "cgroup memory, no swap",
		sandbox.CPULimit:      "cgroup quota",
		sandbox.DiskLimit:     "read-only root, sized scratch, file size limit",
		sandbox.OutputLimit:   "the runner's bound and brig's ring",
		sandbox.WallClock:     "brig's timer, then SIGKILL inside, then removal of the container",
		sandbox.NoNewPrivs:    "no_new_privs",
		sandbox.Capabilities:  "all capabilities dropped",
		sandbox.SyscallFilter: "seccomp, brig's own profile",
		sandbox.Signals:       "own pid namespace",
		sandbox.Ptrace:        "own pid namespace, seccomp, runner not dumpable",
		sandbox.Seclusion:     "own mount, pid and network namespaces",
		sandbox.InheritedFDs:  "started by the engine with three pipes of its own",
		sandbox.Environment:   "a fixed list of names",
		sandbox.Devices:       "the runtime's basic devices only",
		sandbox.KernelSurface: kernels[a.runtime.kernel],
		sandbox.TreeKill:      "own pid namespace; ends with its first process",
	}
	gaps := e.gaps(a.runtime.kernel)
	layers := make([]sandbox.Layer, 0, len(mechanisms))
	for _, id := range sandbox.Layers() {
		layer := sandbox.Layer{ID: id, State: sandbox.Enforced, Mechanism: mechanisms[id]}
		if gap, ok := gaps[id]; ok {
			layer.State, layer.Code, layer.Reason, layer.Remedy = gap.State, gap.Code, gap.Reason, gap.Remedy
		}
		layers = append(layers, layer)
	}
	return layers, sandbox.Complete(layers)
}

// gaps are the layers that this engine says it cannot enforce.
func (e *engine) gaps(k kernel) map[sandbox.LayerID]sandbox.Layer {
	gaps := map[sandbox.LayerID]sandbox.Layer{}
	add := func(id sandbox.LayerID, state sandbox.LayerState, code, reason, remedy string) {
		gaps[id] = sandbox.Layer{State: state, Code: code, Reason: reason, Remedy: remedy}
	}
	const delegate = "docker info"
	if !e.info.PidsLimit {
		add(sandbox.ProcessLimit, sandbox.Off, "pids-not-accounted", "the engine's machine does not limit processes by control group", delegate)
	}
	switch {
	case !e.info.MemoryLimit:
		add(sandbox.MemoryLimit, sandbox.Off, "memory-not-accounted", "the engine's machine does not limit memory by control group", delegate)
	case !e.info.SwapLimit:
		add(sandbox.MemoryLimit, sandbox.Partial, "swap-not-limited", "swap comes on top, because the engine's machine does not account for it", "add swapaccount=1 to its kernel command line")
	}
	if !e.info.CPUCfsQuota {
		add(sandbox.CPULimit, sandbox.Off, "cpu-not-accounted", "the engine's machine has no processor quota", delegate)
	}
	if !e.secures("seccomp") {
		add(sandbox.SyscallFilter, sandbox.Off, "seccomp-missing", "the engine was built or configured without seccomp", delegate)
	}
	if e.placing().bind {
		add(sandbox.DiskLimit, sandbox.Partial, "watched", watchedDisk(), roomOfItsOwn)
	}
	switch {
	case !k.own():
		add(sandbox.KernelSurface, sandbox.Partial, "shared-kernel", "the container shares the kernel of the engine's machine", strongerRuntime)
	default: // both ship without it
		add(sandbox.SyscallFilter, sandbox.Off, "guest-kernel", "the filter is applied inside only if the runtime is configured to", "brig config show docker.runtime")
	}
	if k == gvisorKernel && !e.transport.local() {
		for _, id := range []sandbox.LayerID{sandbox.ProcessLimit, sandbox.MemoryLimit, sandbox.CPULimit} {
			add(id, sandbox.Partial, "not-read", "what holds outside of gVisor cannot be read on another machine", "")
		}
	}
	return gaps
}

// Promised is what an instance of this backend promises to enforce. It follows the
// runtime that the engine found last would be asked for; before one was found it is
// what a shared kernel leaves to be promised.
func (b *Backend) Promised(base sandbox.Base) []sandbox.LayerID {
	b.mu.Lock()
	e := b.engine
	b.mu.Unlock()
	if e == nil {
		return promised(sharedKernel)
	}
	r, err := e.pickRuntime(base.Runtime)
	if err != nil { // nothing starts, so nothing is promised more
		return promised(sharedKernel)
	}
	return promised(r.kernel)
}
