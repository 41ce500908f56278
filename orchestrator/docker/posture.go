package docker

import (
	"fmt"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// promised is what the docker backend promises. Not among it: disk-limit, because
// no engine limits a bound directory, and kernel-surface, because an ordinary
// runtime shares the host's kernel.
func promised() []sandbox.LayerID {
	return slices.DeleteFunc(sandbox.Layers(), func(id sandbox.LayerID) bool {
		return id == sandbox.DiskLimit || id == sandbox.KernelSurface
	})
}

// maxWarning bounds a warning of the engine, which is a sentence or two.
const maxWarning = 300

// evidence is what was read back of one container: what the engine says about it
// and what the runner saw from inside. Neither is what was asked for; the spec is
// only what they are compared with.
type evidence struct {
	engine *engine
	want   spec
	out    container.InspectResponse
	in     wire.Observed

	warnings []string // that the engine gave when it made the container
}

// posture compares inside and outside, layer by layer. Where they disagree, or one
// of them is silent, the layer is at most partial.
func posture(e *engine, want spec, out container.InspectResponse, ready wire.Ready, warnings []string) (sandbox.Posture, error) {
	if out.ContainerJSONBase == nil || out.HostConfig == nil || out.Config == nil {
		return sandbox.Posture{}, fmt.Errorf("read the container back: the engine left out its configuration")
	}
	if out.Image != want.image.ID {
		return sandbox.Posture{}, fmt.Errorf("read the container back: it was made from image %.19s, not from %.19s", printable(out.Image), want.image.ID)
	}
	ev := evidence{engine: e, want: want, out: out, in: ready.Observed, warnings: warnings}
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
		Identity: fmt.Sprintf("%s (%.19s), %s %s", want.image.Tag, want.image.ID, printable(ready.Implementation), printable(ready.Python)),
		Layers:   layers,
		Notes:    ev.notes(),
		Promised: promised(),
		Detached: want.workspace.directory == "",
	}, nil
}

func (ev evidence) notes() []string {
	runtime := ev.out.HostConfig.Runtime
	if runtime == "" {
		runtime = ev.engine.info.DefaultRuntime
	}
	notes := []string{"runtime " + printable(runtime), "code runs as user " + printable(ev.out.Config.User)}
	if ev.want.workspace.directory == "" {
		_, _, size := ev.want.sizes()
		notes = append(notes, fmt.Sprintf("the workspace is in the container's memory, at most %d bytes, and gone with it; files travel through the runner, because %s",
			size, ev.engine.placing().reason))
	}
	if ev.engine.podman {
		notes = append(notes, "the engine is Podman, which this backend supports by documentation only")
	}
	for _, warning := range ev.warnings {
		notes = append(notes, "the engine warned: "+oneLine(warning, maxWarning))
	}
	return notes
}

// check is one thing that must hold for a layer.
type check struct {
	holds bool
	code  string // of the gap
	what  string // the gap in one sentence
}

// judge makes a row: enforced if every check holds, otherwise partial with the
// first gap, and off when none holds.
func judge(mechanism, seen string, checks ...check) sandbox.Layer {
	layer := sandbox.Layer{State: sandbox.Enforced, Mechanism: mechanism, Evidence: seen}
	failed := 0
	for _, c := range checks {
		if c.holds {
			continue
		}
		if failed == 0 {
			layer.Code, layer.Reason = c.code, c.what
		}
		failed++
	}
	switch {
	case failed == 0:
	case failed == len(checks):
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
