package docker

import (
	"fmt"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// promised is what an instance promises. Not among it: disk-limit, because no
// engine limits a bound directory; kernel-surface where the kernel is shared; and
// syscall-filter where it is not, for there brig's filter would guard a guest.
func promised(k kernel) []sandbox.LayerID {
	return slices.DeleteFunc(sandbox.Layers(), func(id sandbox.LayerID) bool {
		return id == sandbox.DiskLimit || id == sandbox.KernelSurface && !k.own() || id == sandbox.SyscallFilter && k.own()
	})
}

// maxWarning bounds a warning of the engine, which is a sentence or two.
const maxWarning = 300

// evidence is what was read back of one container: what the engine says about it,
// what the runner saw from inside, and what the machine shows from outside. None
// of it is what was asked for; the spec is only what they are compared with.
type evidence struct {
	engine   *engine
	want     spec
	out      container.InspectResponse
	ready    wire.Ready
	in       wire.Observed // of ready
	outside  outside
	warnings []string // that the engine gave when it made the container
}

// gather adds what can be read from outside to what the engine and the runner say.
func gather(e *engine, want spec, out container.InspectResponse, ready wire.Ready, warnings []string) evidence {
	ev := evidence{engine: e, want: want, out: out, ready: ready, in: ready.Observed, warnings: warnings}
	if e.transport.local() && out.ContainerJSONBase != nil && out.State != nil {
		ev.outside = lookFromOutside("/proc", "", out.State.Pid, out.ID)
	}
	return ev
}

// posture compares inside and outside, layer by layer. Where they disagree, or one
// of them is silent, the layer is at most partial. What the engine says about a
// container is what it was asked for, word for word, also where the machine could
// not do it: no layer is enforced for that alone.
func posture(ev evidence) (sandbox.Posture, error) {
	if ev.out.ContainerJSONBase == nil || ev.out.HostConfig == nil || ev.out.Config == nil {
		return sandbox.Posture{}, fmt.Errorf("read the container back: the engine left out its configuration")
	}
	image := ev.want.image
	if ev.out.Image != image.ID {
		return sandbox.Posture{}, fmt.Errorf("read the container back: it was made from image %.19s, not from %.19s", printable(ev.out.Image), image.ID)
	}
	rows := map[sandbox.LayerID]sandbox.Layer{}
	for id, row := range layerRows() {
		layer := row(ev)
		layer.ID = id
		rows[id] = layer
	}
	layers := make([]sandbox.Layer, 0, len(rows))
	for _, id := range sandbox.Layers() {
		layers = append(layers, rows[id])
	}
	if err := sandbox.Complete(layers); err != nil {
		panic("BUG: " + err.Error())
	}
	return sandbox.Posture{
		Backend:  sandbox.Docker,
		Identity: fmt.Sprintf("%s, %s %s", image.Identity(), printable(ev.ready.Implementation), printable(ev.ready.Python)),
		Layers:   layers,
		Notes:    ev.notes(),
		Promised: promised(ev.want.runtime.kernel),
		Detached: ev.want.workspace.directory == "",
	}, nil
}

// check is one thing that must hold for a layer.
type check struct {
	holds bool
	code  string // of the gap
	what  string // the gap in one sentence
	fatal bool   // without it nothing of the layer is left, whatever else holds
}

func need(holds bool, code, what string) check { return check{holds: holds, code: code, what: what} }

func vital(holds bool, code, what string) check {
	return check{holds: holds, code: code, what: what, fatal: true}
}

// judge makes a row: enforced if every check holds, otherwise partial with the
// first gap; off where none holds, or where a fatal one does not.
func judge(mechanism, seen string, checks ...check) sandbox.Layer {
	layer := sandbox.Layer{State: sandbox.Enforced, Mechanism: mechanism, Evidence: seen}
	failed, fatal := 0, false
	for _, c := range checks {
		if c.holds {
			continue
		}
		if failed == 0 || c.fatal && !fatal {
			layer.Code, layer.Reason = c.code, c.what
		}
		failed, fatal = failed+1, fatal || c.fatal
	}
	switch {
	case failed == 0:
	case fatal || failed == len(checks):
		layer.State = sandbox.Off
	default:
		layer.State = sandbox.Partial
	}
	return layer
}

// attempt is the outcome of something that the runner really tried.
func (ev evidence) attempt(name string) string {
	if outcome, ok := ev.in.Attempts[name]; ok {
		return printable(outcome)
	}
	return "unavailable"
}

// refusedWith tells whether an attempt failed with one of the errors that a refusal gives.
func (ev evidence) refusedWith(name string, errors ...string) bool {
	return slices.Contains(errors, ev.attempt(name))
}

func (ev evidence) attempts(names ...string) string {
	words := make([]string, 0, len(names))
	for _, name := range names {
		words = append(words, name+"="+ev.attempt(name))
	}
	return strings.Join(words, " ")
}

func (ev evidence) mount(path string) wire.Mount {
	for _, m := range ev.in.Mounts {
		if m.Path == path {
			return m
		}
	}
	return wire.Mount{}
}

func hasOption(m wire.Mount, option string) bool {
	return slices.Contains(strings.Split(m.Options, ","), option)
}
