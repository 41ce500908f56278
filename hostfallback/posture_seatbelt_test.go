package hostfallback

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"brig/hostfallback/confine"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// macs are the reports of every Mac: each state of the profile, with every network
// and mode, with and without answers about who is in the profile.
func macs() []evidence {
	var out []evidence
	codes := []string{
		"", confine.CodeOff, confine.CodeSeatbeltMissing, confine.CodeSeatbeltNested, confine.CodeSeatbeltProfile, confine.CodeSeatbeltOpen, "a code of tomorrow",
	}
	for _, network := range []sandbox.Network{sandbox.NetworkDeny, sandbox.NetworkAllow} {
		for _, code := range codes {
			for _, measure := range []string{confine.MeasureFootprint, confine.MeasureResident} {
				for _, members := range []bool{false, true} {
					if members && code != "" {
						continue
					}
					mode := sandbox.ModeBestEffort
					if code == confine.CodeOff {
						mode = sandbox.ModeOff
					}
					e := evidence{report: whole(), watch: watched(), base: testBaseOf(mode)}
					e.base.Network, e.base.Limits = network, e.base.Limits.WithDefaults()
					r := e.report
					e.report = confine.Report{
						Kernel: "macOS 15.1, Darwin 24.1.0", UID: 501, Kept: r.Kept, Closed: r.Closed, Variables: r.Variables,
						Limits: map[string]uint64{"core": 0, "nofile": r.Limits["nofile"], "fsize": r.Limits["fsize"], "nproc": 900},
						Seatbelt: &confine.Seatbelt{
							Layer: confine.Layer{Applied: code == "", Code: code}, Version: confine.SeatbeltVersion, Hash: "0123456789abcdef",
							Parameters: 30, Measure: measure, Members: members,
						},
					}
					if code == confine.CodeSeatbeltNested {
						e.report.Seatbelt.Errno, e.report.Seatbelt.Said = "EPERM", "sandbox-exec: sandbox_apply: Operation not permitted"
					}
					out = append(out, e)
				}
			}
		}
	}
	return out
}

// seatbeltHeld are the layers that the profile alone holds.
var seatbeltHeld = []sandbox.LayerID{
	sandbox.FSWrite, sandbox.FSRead, sandbox.NetOutbound, sandbox.NetLoopback, sandbox.UnixSockets,
	sandbox.NoNewPrivs, sandbox.Signals, sandbox.Ptrace, sandbox.Devices,
}

func TestSeatbeltRows(t *testing.T) {
	t.Parallel()
	for _, e := range macs() {
		s := e.report.Seatbelt
		rows := layers(e)
		if err := sandbox.Complete(rows); err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			held := slices.Contains(seatbeltHeld, row.ID)
			open := e.base.Network == sandbox.NetworkAllow && (row.ID == sandbox.NetOutbound || row.ID == sandbox.NetLoopback)
			if want := s.Applied && !open; held && (row.State == sandbox.Enforced) != want {
				t.Errorf("%+v: %s is %s", s, row.ID, row.State)
			}
			if row.State != sandbox.Enforced && (row.Code == "" || row.Reason == "" || row.Remedy == "") {
				t.Errorf("%+v: %+v", s, row)
			}
			if row.State == sandbox.Enforced && (row.Mechanism == "" || row.Code != "") {
				t.Errorf("%+v: %+v", s, row)
			}
			if held && !s.Applied && !open && s.Code != "a code of tomorrow" && row.Code != s.Code {
				t.Errorf("%+v: %s has the code %s", s, row.ID, row.Code)
			}
		}
		tree := sandbox.Posture{Layers: rows}.Layer(sandbox.TreeKill)
		if (tree.State == sandbox.Enforced) != s.Members {
			t.Errorf("members %v: %+v", s.Members, tree)
		}
		memory := sandbox.Posture{Layers: rows}.Layer(sandbox.MemoryLimit)
		if memory.State != sandbox.Partial || memory.Code != codeMacMemory || !strings.Contains(memory.Mechanism, s.Measure) {
			t.Errorf("memory: %+v", memory)
		}
		text := strings.Join(notes(e), "\n")
		if !strings.Contains(text, "not verified by us on this OS ("+confine.CodeMacUnverified+")") {
			t.Errorf("the notes do not say that nobody has seen this: %s", text)
		}
		if off := s.Code == confine.CodeOff; strings.Contains(text, "not sandboxed") != off {
			t.Errorf("%+v: %s", s, text)
		}
	}
}

// TestSeatbeltContradicted: what the runner saw wins over what was reported.
func TestSeatbeltContradicted(t *testing.T) {
	t.Parallel()
	for attempt, ids := range map[string][]sandbox.LayerID{
		"write_root":    {sandbox.FSWrite},
		"chmod_root":    {sandbox.FSWrite},
		"list_outside":  {sandbox.FSRead},
		"stat_outside":  {sandbox.FSRead, sandbox.Seclusion},
		"bind_loopback": {sandbox.NetOutbound, sandbox.NetLoopback},
		"kill_parent":   {sandbox.Signals},
	} {
		e := macs()[0]
		e.observed = &wire.Observed{Attempts: map[string]string{attempt: "EPERM"}, Bounds: e.base.Limits.Bounds()}
		quiet := sandbox.Posture{Layers: layers(e)}
		e.observed.Attempts[attempt] = "ok"
		loud := sandbox.Posture{Layers: layers(e)}
		for _, id := range sandbox.Layers() {
			if slices.Contains(ids, id) {
				if got := loud.Layer(id); got.State != sandbox.Off || got.Code != codeProbeDisagree {
					t.Errorf("%s succeeded, and %s is %+v", attempt, id, got)
				}
				continue
			}
			if loud.Layer(id).State != quiet.Layer(id).State {
				t.Errorf("%s changes %s", attempt, id)
			}
		}
	}
}

func TestSeatbeltAgrees(t *testing.T) {
	t.Parallel()
	plan := confine.Plan{
		Env: []string{"A=1", "B=2"},
		Policy: confine.Policy{
			Mode: confine.ModeBestEffort, Network: confine.NetworkDeny, Workspace: "/Users/ada/w", Scratch: "/private/tmp/s",
			Limits: confine.Limits{OpenFiles: 64, FileSize: 1 << 20, Memory: 1 << 30},
		},
	}
	profile, params := plan.Seatbelt()
	honest := func() confine.Report {
		return confine.Report{
			Limits: map[string]uint64{"core": 0, "nofile": 64, "fsize": 1 << 20}, Kept: []int{0, 1, 2}, Variables: []string{"A", "B"},
			Seatbelt: &confine.Seatbelt{
				Layer: confine.Layer{Applied: true}, Version: confine.SeatbeltVersion, Hash: confine.SeatbeltHash(profile), Parameters: len(params),
				Measure: confine.MeasureFootprint, Members: true,
			},
		}
	}
	if err := agreesOn(runtime.GOARCH, plan, honest()); err != nil {
		t.Errorf("an honest report: %v", err)
	}
	nested := honest()
	nested.Seatbelt.Layer, nested.Seatbelt.Members = confine.Layer{Code: confine.CodeSeatbeltNested}, false
	if err := agreesOn(runtime.GOARCH, plan, nested); err != nil {
		t.Errorf("a report of a Mac without: %v", err)
	}
	for name, spoil := range map[string]func(*confine.Report){
		"another profile":          func(r *confine.Report) { r.Seatbelt.Hash = "0" },
		"fewer paths":              func(r *confine.Report) { r.Seatbelt.Parameters-- },
		"another version":          func(r *confine.Report) { r.Seatbelt.Version++ },
		"nothing without a reason": func(r *confine.Report) { r.Seatbelt.Applied, r.Seatbelt.Members = false, false },
		"applied with a reason":    func(r *confine.Report) { r.Seatbelt.Code = confine.CodeSeatbeltNested },
		"off although asked for":   func(r *confine.Report) { r.Seatbelt.Layer = confine.Layer{Code: confine.CodeOff} },
		"not asked for":            func(r *confine.Report) { r.Seatbelt.Layer = confine.Layer{Code: confine.CodeNotAsked} },
		"members of nothing":       func(r *confine.Report) { r.Seatbelt.Layer = confine.Layer{Code: confine.CodeSeatbeltNested} },
		"a descriptor":             func(r *confine.Report) { r.Kept = append(r.Kept, 9) },
		"a variable":               func(r *confine.Report) { r.Variables = append(r.Variables, "C") },
		"no limit of files":        func(r *confine.Report) { delete(r.Limits, "nofile") },
		"a wider limit":            func(r *confine.Report) { r.Limits["fsize"]++ },
		"core files":               func(r *confine.Report) { r.Limits["core"] = 1 },
	} {
		r := honest()
		spoil(&r)
		if err := agreesOn(runtime.GOARCH, plan, r); err == nil {
			t.Errorf("%s: nobody notices", name)
		}
	}
}

// TestSeatbeltLoopback: there is no loopback of an instance's own on a Mac, and the
// machine's is not given instead.
func TestSeatbeltLoopback(t *testing.T) {
	t.Parallel()
	e := macs()[0]
	if err := e.loopback(); err != nil {
		t.Errorf("not asked for: %v", err)
	}
	e.base.Network = sandbox.NetworkLoopback
	if err := e.loopback(); err == nil || !strings.Contains(err.Error(), "no network of one's own") {
		t.Errorf("loopback: %v", err)
	}
}
