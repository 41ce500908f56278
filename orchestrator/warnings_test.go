package orchestrator

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"brig/orchestrator/sandbox"
)

var update = flag.Bool("update", false, "rewrite testdata/*.golden")

// posture is a bound instance's, whole but for states.
func posture(kind sandbox.Kind, states map[sandbox.LayerID]sandbox.LayerState) sandbox.Posture {
	return sandbox.Posture{
		Backend: kind, Identity: "/usr/bin/python3 3.11.2", Layers: layers(states),
		Promised: []sandbox.LayerID{sandbox.FSWrite, sandbox.FSRead, sandbox.SyscallFilter, sandbox.TreeKill},
	}
}

func TestWarningsGolden(t *testing.T) {
	stepped := []Refusal{{sandbox.Docker, "engine-absent", "docker engine not reachable at unix:///var/run/docker.sock: nothing listens there", "sudo systemctl start docker"}}
	partly := map[sandbox.LayerID]sandbox.LayerState{sandbox.FSRead: sandbox.Partial}
	nothing := map[sandbox.LayerID]sandbox.LayerState{
		sandbox.FSRead: sandbox.Off, sandbox.FSWrite: sandbox.Off, sandbox.SyscallFilter: sandbox.Unsupported,
	}
	outbound, loopback := sandbox.Layer{ID: sandbox.NetOutbound}, sandbox.Layer{ID: sandbox.NetLoopback}
	both := []sandbox.Layer{outbound, loopback}
	refusedOne := resolve(inputs{Configured: sandbox.Docker, Probes: map[sandbox.Kind]probe{sandbox.Docker: absent(sandbox.Docker)}})
	cases := []struct {
		name string
		r    Resolution
		p    sandbox.Posture
	}{
		{"contained", Resolution{Resolved: sandbox.Docker}, posture(sandbox.Docker, nil)},
		{"degraded", Resolution{Resolved: sandbox.Host, Degraded: true, Refusals: stepped}, posture(sandbox.Host, nil)},
		{"degraded and weakened", Resolution{Resolved: sandbox.Host, Degraded: true, Refusals: stepped}, posture(sandbox.Host, partly)},
		{"weakened by forecast", Resolution{Resolved: sandbox.Host, Gaps: posture(sandbox.Host, partly).Weakened()}, sandbox.Posture{}},
		{"open", Resolution{Resolved: sandbox.Host, Opened: both}, posture(sandbox.Host, nil)},
		{"open by forecast", Resolution{Resolved: sandbox.Host, Opened: both[:1]}, sandbox.Posture{}},
		{"open, degraded and weakened", Resolution{Resolved: sandbox.Host, Degraded: true, Refusals: stepped, Opened: both}, posture(sandbox.Host, partly)},
		{"open and off", Resolution{Resolved: sandbox.Host, Mode: sandbox.ModeOff, Opened: both}, posture(sandbox.Host, nothing)},
		{"nothing contains", Resolution{Resolved: sandbox.Host}, posture(sandbox.Host, nothing)},
		{"off", Resolution{Resolved: sandbox.Host, Mode: sandbox.ModeOff, Degraded: true, Refusals: stepped}, posture(sandbox.Host, nothing)},
		{"off by forecast", Resolution{Resolved: sandbox.Host, Mode: sandbox.ModeOff}, sandbox.Posture{}},
		{"development", Resolution{Resolved: sandbox.InProcess}, posture(sandbox.InProcess, nil)},
		{"refused", refusedOne, sandbox.Posture{}},
	}
	var got strings.Builder
	for _, c := range cases {
		got.WriteString("# " + c.name + "\n")
		for _, sentence := range Warnings(c.r, c.p) {
			got.WriteString(sentence + "\n")
		}
	}
	golden(t, "warnings.golden", got.String())
}

func TestStampLineGolden(t *testing.T) {
	stepped := []Refusal{{Kind: sandbox.Docker, Reason: "docker engine not reachable at unix:///var/run/docker.sock: nothing listens there"}}
	both := []sandbox.Layer{{ID: sandbox.NetOutbound}, {ID: sandbox.NetLoopback}}
	image := posture(sandbox.Docker, nil)
	image.Identity = "sha256:3b7c4e0a1f5d9b2c8e6a7f0d1c2b3a49586776655443322110ffeeddccbbaa99 python 3.13.5"
	tagged := posture(sandbox.Docker, nil)
	tagged.Identity = "brig/runner:core-1a2b (sha256:3b7c4e0a1f5d), cpython 3.13.5"
	lines := []string{
		stamp(Resolution{Configured: sandbox.Docker, Resolved: sandbox.Docker}, tagged, "s").Line(),
		stamp(Resolution{Configured: sandbox.Docker, Resolved: sandbox.Docker}, image, "s").Line(),
		stamp(Resolution{Configured: sandbox.Docker, Resolved: sandbox.Host, Degraded: true, Refusals: stepped}, posture(sandbox.Host, nil), "s").Line(),
		stamp(Resolution{Configured: sandbox.Host, Resolved: sandbox.Host}, posture(sandbox.Host, map[sandbox.LayerID]sandbox.LayerState{sandbox.FSRead: sandbox.Off}), "s").Line(),
		stamp(Resolution{Configured: sandbox.Host, Resolved: sandbox.Host, Mode: sandbox.ModeOff}, posture(sandbox.Host, nil), "s").Line(),
		stamp(Resolution{Configured: sandbox.Host, Resolved: sandbox.Host, Opened: both}, posture(sandbox.Host, nil), "s").Line(),
		stamp(Resolution{Configured: sandbox.Host, Resolved: sandbox.Host, Opened: both}, posture(sandbox.Host, map[sandbox.LayerID]sandbox.LayerState{sandbox.FSRead: sandbox.Off}), "s").Line(),
		stamp(Resolution{Configured: sandbox.Host, Resolved: sandbox.Host, Mode: sandbox.ModeOff, Opened: both}, posture(sandbox.Host, nil), "s").Line(),
		Stamp{Backend: sandbox.Host}.Line(),
	}
	golden(t, "stamp.golden", strings.Join(lines, "\n")+"\n")
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.ReplaceAll(string(want), "\r\n", "\n"); got != text {
		t.Errorf("got\n%s\nwant\n%s", got, text)
	}
}

func TestJudge(t *testing.T) {
	partly := map[sandbox.LayerID]sandbox.LayerState{sandbox.TreeKill: sandbox.Partial}
	nothing := map[sandbox.LayerID]sandbox.LayerState{
		sandbox.FSRead: sandbox.Off, sandbox.FSWrite: sandbox.Off, sandbox.SyscallFilter: sandbox.Off,
	}
	docker, host := sandbox.Docker, sandbox.Host
	best, require, off := sandbox.ModeBestEffort, sandbox.ModeRequire, sandbox.ModeOff
	rows := []struct {
		name         string
		kind         sandbox.Kind
		mode         sandbox.Mode
		states       map[sandbox.LayerID]sandbox.LayerState
		acknowledged bool
		weakened     bool
		code         string // empty: it may run
	}{
		{"as forecast", host, best, nil, false, false, ""},
		{"a gap nobody forecast", host, best, partly, false, true, ""},
		{"a gap under require", host, require, partly, false, true, CodeIncomplete},
		{"a gap under require, acknowledged", host, require, partly, true, true, CodeIncomplete},
		{"nothing", host, best, nothing, false, true, CodeUnacknowledged},
		{"nothing, acknowledged", host, best, nothing, true, true, ""},
		{"off", host, off, nothing, false, true, ""},
		{"docker with a gap", docker, "", partly, false, true, ""},
		{"docker that contains nothing", docker, "", nothing, false, true, CodeUnacknowledged},
		{"development", sandbox.InProcess, "", nothing, false, true, ""},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			before := Resolution{Configured: docker, Resolved: row.kind, Mode: row.mode, Degraded: row.kind != docker}
			r := judge(before, posture(row.kind, row.states), row.acknowledged, false)
			if r.Weakened != row.weakened {
				t.Errorf("weakened %v, want %v", r.Weakened, row.weakened)
			}
			if row.code == "" {
				if r.Err != nil || r.Resolved != row.kind || r.Degraded != before.Degraded {
					t.Errorf("got %+v, want it to run", r)
				}
				return
			}
			if r.Err == nil || r.Err.Code != row.code || r.Resolved != "" {
				t.Errorf("got %+v, want refusal %s", r, row.code)
			}
		})
	}
}

// What the settings opened is no weakening, and is never silent.
func TestOpened(t *testing.T) {
	wide := map[sandbox.LayerID]sandbox.LayerState{sandbox.NetOutbound: sandbox.Off, sandbox.NetLoopback: sandbox.Off}
	shut := CorePromise()
	open := slices.DeleteFunc(CorePromise(), func(id sandbox.LayerID) bool { return id == sandbox.NetOutbound })
	both := []string{"net-outbound", "net-loopback"}
	for _, c := range []struct {
		name     string
		kind     sandbox.Kind
		promised []sandbox.LayerID
		states   map[sandbox.LayerID]sandbox.LayerState
		opened   []string
		weakened bool
	}{
		{"control: nothing is open", sandbox.Host, shut, nil, nil, false},
		{"host.network is allow", sandbox.Host, open, wide, both, false},
		{"allowed, and enforced all the same", sandbox.Host, open, nil, nil, false},
		{"a gap is not something that was opened", sandbox.Host, shut, wide, nil, true},
		{"no setting opens a container", sandbox.Docker, nil, wide, nil, false},
		{"a development backend promises nothing", sandbox.InProcess, nil, wide, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := sandbox.Posture{Backend: c.kind, Layers: layers(c.states), Promised: c.promised}
			forecast := resolve(inputs{
				Configured: c.kind, Development: true, Probes: map[sandbox.Kind]probe{c.kind: {Layers: p.Layers, Promised: p.Promised}},
			})
			bound := judge(forecast, p, false, false)
			for what, r := range map[string]Resolution{"forecast": forecast, "posture": bound} {
				if !slices.Equal(names(r.Opened), c.opened) || r.Weakened != c.weakened || r.Err != nil {
					t.Errorf("%s: %+v", what, r)
				}
			}
			st := stamp(bound, p, "s")
			if !slices.Equal(st.Opened, c.opened) || strings.Contains(st.Line(), "host.network") != (c.opened != nil) {
				t.Errorf("stamp %+v: %s", st, st.Line())
			}
			loud := slices.ContainsFunc(Warnings(bound, p), func(s string) bool { return strings.HasPrefix(s, "open: ") })
			if loud != (c.opened != nil) || c.opened != nil && ToolsBacked(p, bound) {
				t.Errorf("warnings %q, tools %v", Warnings(bound, p), ToolsBacked(p, bound))
			}
		})
	}
}

func TestToolsBacked(t *testing.T) {
	contained := Resolution{Resolved: sandbox.Docker}
	if !ToolsBacked(posture(sandbox.Docker, nil), contained) {
		t.Fatal("control: a whole posture must back the tools")
	}
	if !ToolsBacked(posture(sandbox.Docker, map[sandbox.LayerID]sandbox.LayerState{sandbox.MemoryLimit: sandbox.Off}), contained) {
		t.Error("a missing memory limit must not hide the tools")
	}
	for _, id := range []sandbox.LayerID{sandbox.FSWrite, sandbox.FSRead, sandbox.NetOutbound, sandbox.TreeKill} {
		for _, state := range []sandbox.LayerState{sandbox.Partial, sandbox.Off, sandbox.Unsupported} {
			if ToolsBacked(posture(sandbox.Host, map[sandbox.LayerID]sandbox.LayerState{id: state}), contained) {
				t.Errorf("backed with %s %s", id, state)
			}
		}
	}
	for _, r := range []Resolution{
		{Resolved: sandbox.Host, Mode: sandbox.ModeOff},
		{Resolved: sandbox.InProcess},
		{Err: &RefusedError{}},
	} {
		if ToolsBacked(posture(sandbox.Host, nil), r) {
			t.Errorf("backed by %+v", r)
		}
	}
	if ToolsBacked(sandbox.Posture{}, contained) {
		t.Error("backed by a posture that reports nothing")
	}
}
