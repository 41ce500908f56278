package docker

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/system"

	"brig/orchestrator/sandbox"
)

// kernel is whose kernel answers the system calls of a container.
type kernel string

const (
	sharedKernel kernel = ""       // that of the engine's machine: runc, crun and whatever brig does not know
	gvisorKernel kernel = "gVisor" // a program's, between the code and the machine's
	kataKernel   kernel = "Kata"   // a virtual machine's own
)

// own tells that code does not reach the kernel of the engine's machine directly.
func (k kernel) own() bool { return k != sharedKernel }

// runtimeChoice is how a container is run, and why so.
type runtimeChoice struct {
	name   string // empty: the engine's default, whose name is Engine's
	engine string // its name as the engine gives it
	kernel kernel
	why    string
}

// auto is docker.runtime's word for the strongest that the engine offers.
const auto = "auto"

// pickRuntime is what docker.runtime means on an engine. auto takes a virtual
// machine before a kernel in user space before the engine's default. A kind, such
// as kata, also means the one runtime of that kind under another name.
func pickRuntime(offered map[string]system.RuntimeWithStatus, standard, asked string) (runtimeChoice, error) {
	names := sortedNames(offered)
	if asked == "" || asked == auto {
		for _, k := range []kernel{kataKernel, gvisorKernel} {
			if kernelOf(standard, offered[standard]) == k {
				return runtimeChoice{engine: standard, kernel: k, why: "auto took the engine's default, the strongest that it offers"}, nil
			}
			for _, name := range names {
				if kernelOf(name, offered[name]) == k {
					return runtimeChoice{name: name, engine: name, kernel: k, why: "auto took the strongest that the engine offers"}, nil
				}
			}
		}
		return runtimeChoice{engine: standard, why: "auto took the engine's default, for it offers neither Kata nor gVisor"}, nil
	}
	if _, ok := offered[asked]; ok {
		return runtimeChoice{name: asked, engine: asked, kernel: kernelOf(asked, offered[asked]), why: "as docker.runtime says"}, nil
	}
	if k := kernelOf(asked, system.RuntimeWithStatus{}); k.own() {
		for _, name := range names {
			if kernelOf(name, offered[name]) == k {
				return runtimeChoice{name: name, engine: name, kernel: k, why: "the engine's name for what docker.runtime calls " + printable(asked)}, nil
			}
		}
	}
	return runtimeChoice{}, fmt.Errorf("it has %s", orNone(names))
}

// kernelOf recognises a runtime by the names that its makers give it: runsc,
// io.containerd.runsc.v1, kata-qemu, io.containerd.kata.v2, or the program's path.
// It is a guess that decides what is asked for; what came of it is read back.
func kernelOf(name string, r system.RuntimeWithStatus) kernel {
	for _, text := range []string{name, path.Base(r.Path), r.Type} {
		text = strings.ToLower(text)
		switch {
		case strings.Contains(text, "kata"):
			return kataKernel
		case strings.Contains(text, "runsc"), strings.Contains(text, "gvisor"):
			return gvisorKernel
		}
	}
	return sharedKernel
}

// sortedNames has short names first: an engine lists kata beside kata-qemu and kata-fc.
func sortedNames(offered map[string]system.RuntimeWithStatus) []string {
	var names []string
	for name := range offered {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	return names
}

// startFailure is why a container that was made did not start. No engine tells a
// broken runtime from another reason otherwise than in words, so for a runtime that
// is not the engine's default the words are passed on, with the runtime's name.
func (s spec) startFailure(err error) error {
	// What a process may be allowed is bounded by the engine's machine, and only the
	// runtime's words say that this was it.
	if isAnswer(err) && strings.Contains(err.Error(), "setting rlimit") {
		return misset("open-files-too-many", "brig config show limits.open_files", err,
			"limits.open_files is %d, which is more than the engine's machine lets a process have, or than the engine may give", s.limits.OpenFiles)
	}
	if s.runtime.name == "" || !isAnswer(err) {
		return fmt.Errorf("start the container: %w", err)
	}
	return &sandbox.Unavailable{
		Backend: sandbox.Docker, Code: "runtime-cannot-start", Settings: true,
		Reason: fmt.Sprintf("the engine could not start a container with its runtime %s (%s): %s",
			printable(s.runtime.name), s.runtime.why, oneLine(err.Error(), 300)),
		Remedy: "brig config show docker.runtime", Err: err,
	}
}

// Under gVisor the engine's process limit counts threads of the host: a few dozen
// of gVisor's own and some for each process inside. Reaching it ends the whole
// sandbox, so it stands well above what the guest's own limit lets happen.
const (
	gvisorThreads    = 256
	threadsPerInside = 8
)

// hostThreads is the limit of the control group around the container.
func (s spec) hostThreads() int64 {
	if s.runtime.kernel == gvisorKernel {
		return gvisorThreads + threadsPerInside*int64(s.limits.Processes)
	}
	return int64(s.limits.Processes)
}

// pickRuntime is the same for a reached engine, with an error for people.
func (e *engine) pickRuntime(asked string) (runtimeChoice, error) {
	if e.podman && (asked == "" || asked == auto) {
		standard := e.info.DefaultRuntime
		return runtimeChoice{
			engine: standard, kernel: kernelOf(standard, e.info.Runtimes[standard]),
			why: "auto took the engine's default, for Podman lists runtimes whether they are installed or not",
		}, nil
	}
	r, err := pickRuntime(e.info.Runtimes, e.info.DefaultRuntime, asked)
	if err != nil {
		return r, misset("runtime-missing", "brig config show docker.runtime", errors.New("no such runtime"),
			"docker engine at %s has no runtime %q, %s", e.endpoint, asked, err)
	}
	return r, nil
}
