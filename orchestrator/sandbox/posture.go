package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// LayerID names one thing that containment can consist of; the same ids on every backend.
type LayerID string

const (
	FSWrite       LayerID = "fs-write"
	FSRead        LayerID = "fs-read"
	NetOutbound   LayerID = "net-outbound"
	NetLoopback   LayerID = "net-loopback"
	UnixSockets   LayerID = "unix-sockets"
	ProcessLimit  LayerID = "process-limit"
	MemoryLimit   LayerID = "memory-limit"
	CPULimit      LayerID = "cpu-limit"
	DiskLimit     LayerID = "disk-limit"
	OutputLimit   LayerID = "output-limit"
	WallClock     LayerID = "wall-clock"
	NoNewPrivs    LayerID = "no-new-privileges"
	Capabilities  LayerID = "capabilities"
	SyscallFilter LayerID = "syscall-filter"
	Signals       LayerID = "signals"
	Ptrace        LayerID = "ptrace"
	Seclusion     LayerID = "seclusion" // files, processes and sockets outside cannot even be seen or named
	InheritedFDs  LayerID = "inherited-fds"
	Environment   LayerID = "environment"
	Devices       LayerID = "devices"
	KernelSurface LayerID = "kernel-surface"
	TreeKill      LayerID = "tree-kill"
)

// Layers lists every id in the order in which they are shown.
func Layers() []LayerID {
	return []LayerID{
		FSWrite, FSRead, NetOutbound, NetLoopback, UnixSockets, ProcessLimit, MemoryLimit,
		CPULimit, DiskLimit, OutputLimit, WallClock, NoNewPrivs, Capabilities, SyscallFilter,
		Signals, Ptrace, Seclusion, InheritedFDs, Environment, Devices, KernelSurface, TreeKill,
	}
}

// LayerState is how far a layer holds.
type LayerState string

const (
	Enforced    LayerState = "enforced"
	Partial     LayerState = "partial"     // it holds with a gap that Reason names
	Off         LayerState = "off"         // it could hold here but does not
	Unsupported LayerState = "unsupported" // it does not exist here
)

// Layer is one row of a posture.
type Layer struct {
	ID        LayerID    `json:"id"`
	State     LayerState `json:"state"`
	Mechanism string     `json:"mechanism,omitempty"` // "landlock abi 7", "cgroup v1 pids.max=256"
	Code      string     `json:"code,omitempty"`      // machine-readable reason of a gap, "landlock-abi-3-lacks-scope"
	Reason    string     `json:"reason,omitempty"`    // the gap in one sentence, lower case
	Remedy    string     `json:"remedy,omitempty"`    // what a person can do about it
	Evidence  string     `json:"evidence,omitempty"`  // what was read back: "CapBnd=0000000000000000"
}

// Posture is what an instance really enforces.
type Posture struct {
	Backend  Kind     `json:"backend"`
	Identity string   `json:"identity"` // image digest, or interpreter path and version
	Layers   []Layer  `json:"layers"`   // one per id of Layers, in that order
	Notes    []string `json:"notes,omitempty"`
	// Promised are the layers that this backend promises to enforce; a promised
	// layer in another state makes the instance weakened.
	Promised []LayerID `json:"promised"`
	// Detached says that the instance does not see the host directory it was
	// prepared with: its workspace is its own, and files travel by Instance.Call.
	Detached bool `json:"detached,omitempty"`
}

// Layer returns the row of id; a missing row is off.
func (p Posture) Layer(id LayerID) Layer {
	for _, l := range p.Layers {
		if l.ID == id {
			return l
		}
	}
	return Layer{ID: id, State: Off, Code: "not-reported", Reason: "the backend did not report this layer"}
}

// Weakened lists the promised layers that are not enforced.
func (p Posture) Weakened() []Layer {
	var gaps []Layer
	for _, id := range p.Promised {
		if l := p.Layer(id); l.State != Enforced {
			gaps = append(gaps, l)
		}
	}
	return gaps
}

// Warnings are the sentences for people, one per gap among the promised layers.
// Every surface shows these and writes none of its own.
func (p Posture) Warnings() []string {
	var out []string
	for _, l := range p.Weakened() {
		text := fmt.Sprintf("%s is %s", l.ID, l.State)
		if l.Reason != "" {
			text += ": " + l.Reason
		}
		out = append(out, text)
	}
	return out
}

// Digest is a short, stable name of the posture: the first 16 hex digits of the
// SHA-256 over its layers' ids, states and mechanisms, backend and identity.
// Evidence and wording do not change it.
func (p Posture) Digest() string {
	type row struct{ ID, State, Mechanism string }
	rows := make([]row, 0, len(p.Layers))
	for _, l := range p.Layers {
		rows = append(rows, row{string(l.ID), string(l.State), l.Mechanism})
	}
	text, err := json.Marshal(struct {
		Backend, Identity string
		Rows              []row
	}{string(p.Backend), p.Identity, rows})
	if err != nil {
		panic("BUG: posture rows do not marshal: " + err.Error())
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// Complete checks that layers holds exactly one row per id in order, with a known
// state and a reason wherever it is not enforced. Backends call it before they seal a posture.
func Complete(layers []Layer) error {
	ids := Layers()
	if len(layers) != len(ids) {
		return fmt.Errorf("posture has %d layers, want %d", len(layers), len(ids))
	}
	for i, l := range layers {
		if l.ID != ids[i] {
			return fmt.Errorf("posture layer %d is %q, want %q", i, l.ID, ids[i])
		}
		switch l.State {
		case Enforced:
		case Partial, Off, Unsupported:
			if l.Code == "" || l.Reason == "" {
				return fmt.Errorf("layer %s is %s without a reason", l.ID, l.State)
			}
		default:
			return fmt.Errorf("layer %s has unknown state %q", l.ID, l.State)
		}
	}
	return nil
}
