package orchestrator

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"

	"brig/orchestrator/sandbox"
)

// layers is a whole posture in which every layer is enforced but those given.
func layers(states map[sandbox.LayerID]sandbox.LayerState) []sandbox.Layer {
	var out []sandbox.Layer
	for _, id := range sandbox.Layers() {
		l := sandbox.Layer{ID: id, State: sandbox.Enforced, Mechanism: "test"}
		if state, set := states[id]; set {
			l.State, l.Code, l.Reason = state, "test-gap", "the kernel is too old"
		}
		out = append(out, l)
	}
	return out
}

var errNoSpace = errors.New("no space left on device")

// misset is an engine that lacks the runtime that the settings name.
func misset() probe {
	return probe{Err: &sandbox.Unavailable{
		Backend: sandbox.Docker, Code: "runtime-missing", Settings: true,
		Reason: `docker engine at unix:///var/run/docker.sock has no runtime "runsc", it has runc`,
		Remedy: "brig config show docker.runtime",
	}}
}

var errSilent = errors.New("no answer in time")

func absent(kind sandbox.Kind) probe {
	return probe{Err: &sandbox.Unavailable{
		Backend: kind, Code: "engine-absent",
		Reason: "docker engine not reachable at unix:///var/run/docker.sock: nothing listens there",
		Remedy: "sudo systemctl start docker",
	}}
}

func TestResolve(t *testing.T) {
	promised := []sandbox.LayerID{sandbox.FSWrite, sandbox.FSRead, sandbox.SyscallFilter, sandbox.TreeKill}
	whole := probe{Layers: layers(nil), Promised: promised}
	verdicts := func(but map[sandbox.LayerID]Verdict) map[sandbox.LayerID]Verdict {
		out := map[sandbox.LayerID]Verdict{}
		for _, id := range promised {
			out[id] = Blocked
		}
		maps.Copy(out, but)
		return out
	}
	partly := probe{Layers: layers(map[sandbox.LayerID]sandbox.LayerState{sandbox.FSRead: sandbox.Partial}), Promised: promised}
	nothing := probe{Layers: layers(map[sandbox.LayerID]sandbox.LayerState{
		sandbox.FSRead: sandbox.Off, sandbox.FSWrite: sandbox.Unsupported, sandbox.SyscallFilter: sandbox.Off,
	}), Promised: promised}
	filesOnly := probe{Layers: layers(map[sandbox.LayerID]sandbox.LayerState{sandbox.SyscallFilter: sandbox.Unsupported}), Promised: promised}
	callsOnly := probe{Layers: layers(map[sandbox.LayerID]sandbox.LayerState{
		sandbox.FSRead: sandbox.Off, sandbox.FSWrite: sandbox.Off,
	}), Promised: promised}
	unpromised := probe{Layers: layers(map[sandbox.LayerID]sandbox.LayerState{sandbox.MemoryLimit: sandbox.Off}), Promised: promised}
	unknown := probe{Promised: promised}
	noPython := probe{Err: &sandbox.Unavailable{
		Backend: sandbox.Host, Code: "python-missing", Reason: "no python3 was found on PATH", Remedy: "sudo apt install python3",
	}}
	noLoopback := probe{Err: &sandbox.Unavailable{
		Backend: sandbox.Host, Code: "host-network-loopback", Reason: "host.network is loopback, and there is none to offer", Remedy: "brig config show host.network", Settings: true,
	}}
	noImage := probe{Err: &sandbox.Unavailable{
		Backend: sandbox.Docker, Code: "image-base-missing", Reason: "the base image is not on the engine", Remedy: "docker pull debian:trixie-slim",
	}}
	noSpace := probe{Promised: promised, Err: fmt.Errorf("make the instance's directory: %w", errNoSpace)}
	mistake := misset()
	docker, host, wasm := sandbox.Docker, sandbox.Host, sandbox.WASM
	type probes = map[sandbox.Kind]probe
	down, up := absent(docker), whole

	const (
		refuse  = ""
		full    = "full"
		weak    = "weakened"
		degr    = "degraded"
		degweak = "degraded weakened"
	)
	rows := []struct {
		name  string
		in    inputs
		kind  sandbox.Kind // refuse: nothing runs
		state string
		gaps  []sandbox.LayerID
		code  string // of the refusal
	}{
		// The rows of the design, in its order.
		{"docker reachable", inputs{Configured: docker, Fallback: host, Probes: probes{docker: up}}, docker, full, nil, ""},
		{"step down, best-effort", inputs{Configured: docker, Fallback: host, Mode: sandbox.ModeBestEffort, Probes: probes{docker: down, host: whole}}, host, degr, nil, ""},
		{"step down, require", inputs{Configured: docker, Fallback: host, Mode: sandbox.ModeRequire, Probes: probes{docker: down, host: whole}}, host, degr, nil, ""},
		{
			"step down, partly",
			inputs{Configured: docker, Fallback: host, Mode: sandbox.ModeBestEffort, Probes: probes{docker: down, host: partly}},
			host, degweak,
			[]sandbox.LayerID{sandbox.FSRead},
			"",
		},
		{"step down, nothing contains", inputs{Configured: docker, Fallback: host, Mode: sandbox.ModeBestEffort, Probes: probes{docker: down, host: nothing}}, refuse, "", nil, CodeUnacknowledged},
		{
			"step down, nothing contains, acknowledged",
			inputs{Configured: docker, Fallback: host, Mode: sandbox.ModeBestEffort, Acknowledged: true, Probes: probes{docker: down, host: nothing}},
			host, degweak,
			[]sandbox.LayerID{sandbox.FSWrite, sandbox.FSRead, sandbox.SyscallFilter},
			"",
		},
		{"step down, partly, require", inputs{Configured: docker, Fallback: host, Mode: sandbox.ModeRequire, Probes: probes{docker: down, host: partly}}, refuse, "", nil, CodeIncomplete},
		{"step down, nothing, require", inputs{Configured: docker, Fallback: host, Mode: sandbox.ModeRequire, Probes: probes{docker: down, host: nothing}}, refuse, "", nil, CodeIncomplete},
		{"step down, off", inputs{Configured: docker, Fallback: host, Mode: sandbox.ModeOff, Probes: probes{docker: down, host: whole}}, host, degweak, nil, ""},
		{"own image, engine absent", inputs{Configured: docker, Fallback: host, Image: true, Probes: probes{docker: down, host: whole}}, refuse, "", nil, "engine-absent"},
		{"own image, nothing can be told", inputs{Configured: docker, Fallback: host, Image: true, Probes: probes{docker: {Err: errSilent}, host: whole}}, refuse, "", nil, CodeCouldNotTell},
		{"own image, docker reachable", inputs{Configured: docker, Fallback: host, Image: true, Probes: probes{docker: up, host: whole}}, docker, full, nil, ""},
		{"own image is of containers only", inputs{Configured: docker, Requested: host, Image: true, Probes: probes{docker: up, host: whole}}, host, full, nil, ""},
		{"fallback none", inputs{Configured: docker, Probes: probes{docker: down, host: whole}}, refuse, "", nil, "engine-absent"},
		{"host", inputs{Configured: host, Mode: sandbox.ModeBestEffort, Probes: probes{host: whole}}, host, full, nil, ""},
		{"host, require", inputs{Configured: host, Mode: sandbox.ModeRequire, Probes: probes{host: whole}}, host, full, nil, ""},
		{"host partly", inputs{Configured: host, Mode: sandbox.ModeBestEffort, Probes: probes{host: partly}}, host, weak, []sandbox.LayerID{sandbox.FSRead}, ""},
		{"host partly, require", inputs{Configured: host, Mode: sandbox.ModeRequire, Probes: probes{host: partly}}, refuse, "", nil, CodeIncomplete},
		{"host nothing, require", inputs{Configured: host, Mode: sandbox.ModeRequire, Probes: probes{host: nothing}}, refuse, "", nil, CodeIncomplete},
		{"host off", inputs{Configured: host, Mode: sandbox.ModeOff, Probes: probes{host: whole}}, host, weak, nil, ""},
		{"wasm", inputs{Configured: wasm, Fallback: host, Probes: probes{wasm: whole}}, wasm, full, nil, ""},
		{"wasm missing is fail-closed", inputs{Configured: wasm, Fallback: host, Probes: probes{host: whole}}, refuse, "", nil, CodeMissing},
		{"inprocess in production", inputs{Configured: sandbox.InProcess, Fallback: host, Probes: probes{sandbox.InProcess: whole, host: whole}}, refuse, "", nil, CodeDevelopment},
		{"inprocess in development", inputs{Configured: sandbox.InProcess, Development: true, Probes: probes{sandbox.InProcess: whole}}, sandbox.InProcess, full, nil, ""},

		// What follows from them.
		{"all code switched off", inputs{Configured: docker, Fallback: host, SwitchedOff: true, Probes: probes{docker: up, host: whole}}, refuse, "", nil, CodeSwitchedOff},
		{"all code switched off, requested", inputs{Configured: docker, Requested: host, SwitchedOff: true, Probes: probes{docker: up, host: whole}}, refuse, "", nil, CodeSwitchedOff},
		{"requested docker never steps down", inputs{Configured: docker, Requested: docker, Fallback: host, Probes: probes{docker: down, host: whole}}, refuse, "", nil, "engine-absent"},
		{"requested host is not degraded", inputs{Configured: docker, Requested: host, Fallback: host, Probes: probes{docker: up, host: whole}}, host, full, nil, ""},
		{"requested host keeps its mode", inputs{Configured: docker, Requested: host, Mode: sandbox.ModeRequire, Probes: probes{docker: up, host: partly}}, refuse, "", nil, CodeIncomplete},
		{"requested wasm, missing", inputs{Configured: docker, Requested: wasm, Fallback: host, Probes: probes{docker: up}}, refuse, "", nil, CodeMissing},
		{"requested nonsense", inputs{Configured: docker, Requested: "firejail", Fallback: host, Probes: probes{docker: up}}, refuse, "", nil, CodeUnknown},
		{"requested inprocess", inputs{Configured: docker, Requested: sandbox.InProcess, Probes: probes{docker: up, sandbox.InProcess: whole}}, refuse, "", nil, CodeDevelopment},
		{"memory in production", inputs{Configured: sandbox.Memory, Probes: probes{sandbox.Memory: whole}}, refuse, "", nil, CodeDevelopment},
		{"memory needs no acknowledgement in development", inputs{Configured: sandbox.Memory, Development: true, Probes: probes{sandbox.Memory: nothing}}, sandbox.Memory, weak, []sandbox.LayerID{sandbox.FSWrite, sandbox.FSRead, sandbox.SyscallFilter}, ""},
		{"could not tell counts as not reachable", inputs{Configured: docker, Fallback: host, Probes: probes{docker: {Err: errSilent}, host: whole}}, host, degr, nil, ""},
		{"could not tell, no fallback", inputs{Configured: docker, Probes: probes{docker: {Err: errSilent}}}, refuse, "", nil, CodeCouldNotTell},
		{"docker is not in this build", inputs{Configured: docker, Fallback: host, Probes: probes{host: whole}}, host, degr, nil, ""},
		{"docker with a gap is weakened", inputs{Configured: docker, Fallback: host, Probes: probes{docker: partly}}, docker, weak, []sandbox.LayerID{sandbox.FSRead}, ""},
		{"no forecast counts as could not tell", inputs{Configured: docker, Fallback: host, Probes: probes{docker: {}, host: whole}}, host, degr, nil, ""},
		{"no forecast, requested", inputs{Configured: docker, Requested: docker, Fallback: host, Probes: probes{docker: {}, host: whole}}, refuse, "", nil, CodeCouldNotTell},
		{"neither is there", inputs{Configured: docker, Fallback: host, Probes: probes{docker: down, host: noPython}}, refuse, "", nil, "python-missing"},
		{"off still needs an interpreter", inputs{Configured: host, Mode: sandbox.ModeOff, Probes: probes{host: noPython}}, refuse, "", nil, "python-missing"},
		{"host without python has no step-down", inputs{Configured: host, Fallback: host, Probes: probes{host: noPython, docker: up}}, refuse, "", nil, "python-missing"},
		{"host nothing, best-effort", inputs{Configured: host, Mode: sandbox.ModeBestEffort, Probes: probes{host: nothing}}, refuse, "", nil, CodeUnacknowledged},
		{"host nothing, acknowledged does not soften require", inputs{Configured: host, Mode: sandbox.ModeRequire, Acknowledged: true, Probes: probes{host: nothing}}, refuse, "", nil, CodeIncomplete},
		{"host with files only", inputs{Configured: host, Probes: probes{host: filesOnly}}, host, weak, []sandbox.LayerID{sandbox.SyscallFilter}, ""},
		{"host with system calls only", inputs{Configured: host, Probes: probes{host: callsOnly}}, host, weak, []sandbox.LayerID{sandbox.FSWrite, sandbox.FSRead}, ""},
		{"a layer nobody promised weakens nothing", inputs{Configured: host, Mode: sandbox.ModeRequire, Probes: probes{host: unpromised}}, host, full, nil, ""},
		{"host without a forecast", inputs{Configured: host, Probes: probes{host: unknown}}, refuse, "", nil, CodeCouldNotTell},
		{"host without a forecast, require", inputs{Configured: host, Mode: sandbox.ModeRequire, Probes: probes{host: {}}}, refuse, "", nil, CodeCouldNotTell},
		{"a full disk is not a host that contains nothing", inputs{Configured: host, Mode: sandbox.ModeBestEffort, Probes: probes{host: noSpace}}, refuse, "", nil, CodeCouldNotTell},
		{"a full disk, acknowledged before", inputs{Configured: host, Mode: sandbox.ModeBestEffort, Acknowledged: true, Probes: probes{host: noSpace}}, refuse, "", nil, CodeCouldNotTell},
		{"a full disk, require", inputs{Configured: host, Mode: sandbox.ModeRequire, Probes: probes{host: noSpace}}, refuse, "", nil, CodeCouldNotTell},
		{"a full disk, off", inputs{Configured: host, Mode: sandbox.ModeOff, Probes: probes{host: noSpace}}, refuse, "", nil, CodeCouldNotTell},
		{"step down onto a full disk", inputs{Configured: docker, Fallback: host, Probes: probes{docker: down, host: noSpace}}, refuse, "", nil, CodeCouldNotTell},

		// A mistake in the settings of the wanted backend never moves code to another one.
		{"settings ask for what is not there", inputs{Configured: docker, Fallback: host, Probes: probes{docker: mistake, host: whole}}, refuse, "", nil, "runtime-missing"},
		{"settings ask for what is not there, no fallback", inputs{Configured: docker, Probes: probes{docker: mistake}}, refuse, "", nil, "runtime-missing"},
		{"settings ask for what is not there, requested", inputs{Configured: host, Requested: docker, Probes: probes{docker: mistake, host: whole}}, refuse, "", nil, "runtime-missing"},
		{"a wrapped mistake is one", inputs{Configured: docker, Fallback: host, Probes: probes{docker: {Err: fmt.Errorf("prepare: %w", mistake.Err)}, host: whole}}, refuse, "", nil, "runtime-missing"},
		{"an image that cannot be made is none", inputs{Configured: docker, Fallback: host, Probes: probes{docker: noImage, host: whole}}, host, degr, nil, ""},
		{"step down onto a mistake", inputs{Configured: docker, Fallback: host, Probes: probes{docker: down, host: noLoopback}}, refuse, "", nil, "host-network-loopback"},
		{"an unknown mode is the strictest", inputs{Configured: host, Mode: "requires", Probes: probes{host: partly}}, refuse, "", nil, CodeIncomplete},
		{"verdict allowed", inputs{Configured: host, Mode: sandbox.ModeRequire, Verdicts: map[sandbox.LayerID]Verdict{sandbox.FSRead: Allowed}, Probes: probes{host: whole}}, refuse, "", nil, CodeUnverified},
		{"verdict inconclusive", inputs{Configured: host, Mode: sandbox.ModeRequire, Verdicts: map[sandbox.LayerID]Verdict{sandbox.FSRead: Inconclusive}, Probes: probes{host: whole}}, refuse, "", nil, CodeUnverified},
		{"verdict blocked", inputs{Configured: host, Mode: sandbox.ModeRequire, Verdicts: verdicts(nil), Probes: probes{host: whole}}, host, full, nil, ""},
		{"verdict about an unpromised layer", inputs{Configured: host, Mode: sandbox.ModeRequire, Verdicts: verdicts(map[sandbox.LayerID]Verdict{sandbox.Devices: Allowed}), Probes: probes{host: whole}}, host, full, nil, ""},
		{"a promised layer without a verdict", inputs{Configured: host, Mode: sandbox.ModeRequire, Verdicts: map[sandbox.LayerID]Verdict{sandbox.FSRead: Blocked}, Probes: probes{host: whole}}, refuse, "", nil, CodeUnverified},
		{"verdict unsupported", inputs{Configured: host, Mode: sandbox.ModeRequire, Verdicts: verdicts(map[sandbox.LayerID]Verdict{sandbox.TreeKill: NotSupported}), Probes: probes{host: whole}}, refuse, "", nil, CodeUnverified},
		{"no self-test on this boot", inputs{Configured: host, Mode: sandbox.ModeRequire, Verdicts: map[sandbox.LayerID]Verdict{}, Probes: probes{host: whole}}, refuse, "", nil, CodeUnverified},
		{"step down without a self-test", inputs{Configured: docker, Fallback: host, Mode: sandbox.ModeRequire, Verdicts: map[sandbox.LayerID]Verdict{}, Probes: probes{docker: down, host: whole}}, refuse, "", nil, CodeUnverified},
		{"verdicts are not asked of docker", inputs{Configured: docker, Fallback: host, Mode: sandbox.ModeRequire, Verdicts: map[sandbox.LayerID]Verdict{}, Probes: probes{docker: whole, host: whole}}, docker, full, nil, ""},
		{"a trial needs no verdict", inputs{Configured: host, Mode: sandbox.ModeRequire, Trial: true, Verdicts: map[sandbox.LayerID]Verdict{sandbox.FSRead: Allowed}, Probes: probes{host: whole}}, host, full, nil, ""},
		{"a trial of what require refuses", inputs{Configured: host, Mode: sandbox.ModeRequire, Trial: true, Probes: probes{host: partly}}, host, weak, []sandbox.LayerID{sandbox.FSRead}, ""},
		{"a trial needs no consent", inputs{Configured: docker, Trial: true, Probes: probes{docker: nothing}}, docker, weak, []sandbox.LayerID{sandbox.FSWrite, sandbox.FSRead, sandbox.SyscallFilter}, ""},
		{"a trial of what is not there", inputs{Configured: docker, Trial: true, Probes: probes{docker: down}}, refuse, "", nil, "engine-absent"},
		{"a trial where all code is off", inputs{Configured: docker, Trial: true, SwitchedOff: true, Probes: probes{docker: whole}}, refuse, "", nil, CodeSwitchedOff},
		{"verdicts bind require only", inputs{Configured: host, Mode: sandbox.ModeBestEffort, Verdicts: map[sandbox.LayerID]Verdict{sandbox.FSRead: Allowed}, Probes: probes{host: whole}}, host, full, nil, ""},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			r := resolve(row.in)
			if r.Resolved != row.kind {
				t.Fatalf("resolved %q, want %q: %+v", r.Resolved, row.kind, r)
			}
			if row.kind == refuse {
				checkRefused(t, r, row.code)
				return
			}
			if r.Err != nil {
				t.Fatalf("resolved and refused: %v", r.Err)
			}
			if want := strings.Contains(row.state, "degraded"); r.Degraded != want {
				t.Errorf("degraded %v, want %v", r.Degraded, want)
			}
			if r.Degraded != (len(r.Refusals) > 0) {
				t.Errorf("degraded %v with refusals %v", r.Degraded, r.Refusals)
			}
			if want := strings.Contains(row.state, "weakened"); r.Weakened != want {
				t.Errorf("weakened %v, want %v", r.Weakened, want)
			}
			var ids []sandbox.LayerID
			for _, l := range r.Gaps {
				ids = append(ids, l.ID)
			}
			if !reflect.DeepEqual(ids, row.gaps) {
				t.Errorf("gaps %v, want %v", ids, row.gaps)
			}
		})
	}
}

func checkRefused(t *testing.T, r Resolution, code string) {
	t.Helper()
	if r.Err == nil {
		t.Fatal("nothing resolved and no error")
	}
	if r.Err.Code != code {
		t.Errorf("code %q, want %q", r.Err.Code, code)
	}
	if r.Degraded || r.Weakened {
		t.Error("what does not run can be neither degraded nor weakened")
	}
	text := r.Err.Error()
	if r.Err.Remedy == "" || !strings.HasSuffix(text, r.Err.Remedy) {
		t.Errorf("%q does not end with the next command %q", text, r.Err.Remedy)
	}
	if text != strings.ToLower(text[:1])+text[1:] || strings.HasSuffix(r.Err.Reason, ".") {
		t.Errorf("%q is not a lower-case phrase", text)
	}
}

func TestRefusalNamesEveryStep(t *testing.T) {
	r := resolve(inputs{
		Configured: sandbox.Docker, Fallback: sandbox.Host, Mode: sandbox.ModeRequire,
		Probes: map[sandbox.Kind]probe{
			sandbox.Docker: absent(sandbox.Docker),
			sandbox.Host: {
				Layers:   layers(map[sandbox.LayerID]sandbox.LayerState{sandbox.FSRead: sandbox.Partial}),
				Promised: []sandbox.LayerID{sandbox.FSRead},
			},
		},
	})
	want := "docker engine not reachable at unix:///var/run/docker.sock: nothing listens there, and " +
		"host.sandbox is require, but fs-read is partial: the kernel is too old; try: brig doctor"
	if r.Err == nil || r.Err.Error() != want {
		t.Errorf("got  %v\nwant %s", r.Err, want)
	}
	if len(r.Err.Met) != 2 || r.Err.Met[0].Code != "engine-absent" || r.Err.Met[1].Code != CodeIncomplete || r.Err.Code != CodeIncomplete {
		t.Errorf("met %v, want both steps, and the last one's code", r.Err.Met)
	}

	// What would not help is not said: with another fallback the mistake would still be one.
	r = resolve(inputs{Configured: sandbox.Docker, Probes: map[sandbox.Kind]probe{sandbox.Docker: misset()}})
	want = `docker engine at unix:///var/run/docker.sock has no runtime "runsc", it has runc; try: brig config show docker.runtime`
	if r.Err == nil || r.Err.Error() != want {
		t.Errorf("got  %v\nwant %s", r.Err, want)
	}

	r = resolve(inputs{Configured: sandbox.Host, Probes: map[sandbox.Kind]probe{sandbox.Host: {Err: errNoSpace}}})
	want = "whether host can be used could not be found out: no space left on device; try: brig doctor"
	if r.Err == nil || r.Err.Error() != want {
		t.Errorf("got  %v\nwant %s", r.Err, want)
	}

	r = resolve(inputs{Configured: sandbox.Docker, Probes: map[sandbox.Kind]probe{sandbox.Docker: absent(sandbox.Docker)}})
	want = "docker engine not reachable at unix:///var/run/docker.sock: nothing listens there, and " +
		"execution.fallback is none; try: sudo systemctl start docker"
	if r.Err == nil || r.Err.Error() != want {
		t.Errorf("got  %v\nwant %s", r.Err, want)
	}
}
