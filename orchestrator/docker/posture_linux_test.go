package docker

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"

	"brig/images"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// TestPostureAgrees compares the posture with three others: the engine's inspect,
// /proc/self/status as code inside reads it, and the kernel's view from outside.
func TestPostureAgrees(t *testing.T) {
	b := engineBackend(t, images.Core)
	i := session(t, b, coreBase(), t.TempDir())
	p := i.Posture()
	if gaps := p.Weakened(); len(gaps) > 0 {
		t.Fatalf("weakened: %v", p.Warnings())
	}
	inside := status(ok(t, i, "print(open('/proc/self/status').read())").stdout.String())
	inspect, err := i.box.engine.cli.ContainerInspect(limited(t), i.box.id)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", inspect.State.Pid))
	if err != nil {
		t.Fatal(err)
	}
	outside := status(string(text))
	for _, seen := range []map[string]string{inside, outside} {
		for name, want := range map[string]string{
			"CapInh": "0000000000000000", "CapPrm": "0000000000000000", "CapEff": "0000000000000000",
			"CapBnd": "0000000000000000", "CapAmb": "0000000000000000", "NoNewPrivs": "1", "Seccomp": "2",
		} {
			if seen[name] != want {
				t.Errorf("%s is %s, want %s", name, seen[name], want)
			}
		}
	}
	if evidence := p.Layer(sandbox.Capabilities).Evidence; !strings.Contains(evidence, "CapBnd="+inside["CapBnd"]) {
		t.Errorf("the posture's evidence is %q", evidence)
	}
	host := inspect.HostConfig
	if !host.ReadonlyRootfs || !host.NetworkMode.IsNone() || host.Privileged || !host.AutoRemove ||
		host.PidsLimit == nil || *host.PidsLimit != 256 || host.Memory != 1<<30 || host.MemorySwap != 1<<30 ||
		len(host.CapDrop) != 1 || host.CapDrop[0] != "ALL" || host.LogConfig.Type != "none" || !host.IpcMode.IsPrivate() ||
		len(host.Binds) != 0 || len(host.Devices) != 0 || host.OomScoreAdj != oomScore {
		t.Errorf("inspect: %+v", host)
	}
	uids := strings.Fields(outside["Uid"])
	if len(uids) != 4 || uids[0] == "0" || uids[0] != uids[3] {
		t.Errorf("the runner is user %v outside", uids)
	}
}

func status(text string) map[string]string {
	found := map[string]string{}
	for _, line := range strings.Split(text, "\n") {
		if name, value, ok := strings.Cut(line, ":"); ok {
			found[name] = strings.TrimSpace(value)
		}
	}
	return found
}

// TestPostureFromDisagreement changes one observation at a time of a real
// container's evidence: the layer that rests on it may not stay enforced.
func TestPostureFromDisagreement(t *testing.T) {
	b := engineBackend(t, images.Core)
	made, err := b.Prepare(limited(t), coreBase(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := made.(*prepared)
	ready := p.ready
	defer func() {
		if err := p.Close(limited(t)); err != nil {
			t.Error(err)
		}
	}()
	inspect := func() container.InspectResponse {
		out, err := p.engine.cli.ContainerInspect(limited(t), p.container.id)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for _, c := range []struct {
		name   string
		layer  sandbox.LayerID
		change func(*container.InspectResponse, *wire.Observed)
	}{
		{"root writable inside", sandbox.FSWrite, func(_ *container.InspectResponse, o *wire.Observed) { o.Attempts["write_root"] = "ok" }},
		{"root writable outside", sandbox.FSWrite, func(r *container.InspectResponse, _ *wire.Observed) { r.HostConfig.ReadonlyRootfs = false }},
		{"another mount", sandbox.FSRead, func(r *container.InspectResponse, _ *wire.Observed) {
			r.Mounts = append(r.Mounts, container.MountPoint{Destination: "/host"})
		}},
		{"an interface", sandbox.NetOutbound, func(_ *container.InspectResponse, o *wire.Observed) { o.Interfaces = []string{"eth0", "lo"} }},
		{"host network", sandbox.NetLoopback, func(r *container.InspectResponse, _ *wire.Observed) { r.HostConfig.NetworkMode = "host" }},
		{"host ipc", sandbox.UnixSockets, func(r *container.InspectResponse, _ *wire.Observed) { r.HostConfig.IpcMode = "host" }},
		{"no process limit", sandbox.ProcessLimit, func(_ *container.InspectResponse, o *wire.Observed) { o.Cgroup["pids.max"] = "max" }},
		{"no memory limit", sandbox.MemoryLimit, func(_ *container.InspectResponse, o *wire.Observed) {
			delete(o.Cgroup, "memory.limit_in_bytes")
			delete(o.Cgroup, "memory.max")
		}},
		{"no limit of open files", sandbox.ProcessLimit, func(_ *container.InspectResponse, o *wire.Observed) { delete(o.Rlimits, "nofile") }},
		{"swap not accounted", sandbox.MemoryLimit, func(_ *container.InspectResponse, o *wire.Observed) {
			delete(o.Cgroup, "memory.memsw.limit_in_bytes")
			delete(o.Cgroup, "memory.swap.max")
		}},
		{"no processor limit", sandbox.CPULimit, func(_ *container.InspectResponse, o *wire.Observed) {
			o.Cgroup["cpu.cfs_quota_us"] = "-1"
			o.Cgroup["cpu.max"] = "max 100000"
		}},
		{"a log", sandbox.OutputLimit, func(r *container.InspectResponse, _ *wire.Observed) { r.HostConfig.LogConfig.Type = "json-file" }},
		{"another stop signal", sandbox.WallClock, func(r *container.InspectResponse, _ *wire.Observed) { r.Config.StopSignal = "SIGTERM" }},
		{"new privileges", sandbox.NoNewPrivs, func(_ *container.InspectResponse, o *wire.Observed) { o.Status["NoNewPrivs"] = "0" }},
		{"a capability", sandbox.Capabilities, func(_ *container.InspectResponse, o *wire.Observed) { o.Status["CapBnd"] = "00000000a80425fb" }},
		{"no filter", sandbox.SyscallFilter, func(_ *container.InspectResponse, o *wire.Observed) { o.Status["Seccomp"] = "0" }},
		{"a call not refused", sandbox.SyscallFilter, func(_ *container.InspectResponse, o *wire.Observed) { o.Attempts["unshare_user"] = "ok" }},
		{"a call not tried", sandbox.SyscallFilter, func(_ *container.InspectResponse, o *wire.Observed) { o.Attempts["io_uring_setup"] = "unavailable" }},
		{"host pids", sandbox.Signals, func(r *container.InspectResponse, o *wire.Observed) { r.HostConfig.PidMode = "host" }},
		{"not the first process", sandbox.TreeKill, func(_ *container.InspectResponse, o *wire.Observed) { o.PID = 7 }},
		{"runner dumpable", sandbox.Ptrace, func(_ *container.InspectResponse, o *wire.Observed) { o.Dumpable = 1 }},
		{"a terminal", sandbox.InheritedFDs, func(r *container.InspectResponse, _ *wire.Observed) { r.Config.Tty = true }},
		{"a proxy variable", sandbox.Environment, func(r *container.InspectResponse, _ *wire.Observed) {
			r.Config.Env = append(r.Config.Env, "HTTP_PROXY=http://user:password@proxy")
		}},
		{"a device", sandbox.Devices, func(r *container.InspectResponse, _ *wire.Observed) {
			r.HostConfig.Devices = []container.DeviceMapping{{PathOnHost: "/dev/kvm"}}
		}},
		{"silence", sandbox.Capabilities, func(_ *container.InspectResponse, o *wire.Observed) { *o = wire.Observed{} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, in := inspect(), cloneObserved(ready.Observed)
			before, err := posture(gather(p.engine, p.spec, out, wire.Ready{Observed: in}, nil))
			if err != nil || before.Layer(c.layer).State != sandbox.Enforced {
				t.Fatalf("the control is not enforced: %+v, %v", before.Layer(c.layer), err)
			}
			c.change(&out, &in)
			after, err := posture(gather(p.engine, p.spec, out, wire.Ready{Observed: in}, nil))
			if err != nil {
				t.Fatal(err)
			}
			if l := after.Layer(c.layer); l.State == sandbox.Enforced || strings.Contains(l.Evidence, "password") {
				t.Errorf("%+v", l)
			}
		})
	}
}

// TestDigestNamesEveryLimit starts a container for each limit that a person can
// change: one that enforces something else is another posture.
func TestDigestNamesEveryLimit(t *testing.T) {
	b := engineBackend(t, images.Core)
	digest := func(base sandbox.Base) string {
		p, err := b.Prepare(limited(t), base, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		workspace := p.(*prepared).directory
		i, err := p.Bind(limited(t), sandbox.Claim{ID: sandbox.InstanceID(b.options.Process + "-" + token()), Session: "test", Workspace: workspace})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := i.Close(limited(t)); err != nil {
				t.Error(err)
			}
		}()
		if gaps := i.Posture().Weakened(); len(gaps) > 0 {
			t.Errorf("weakened: %v", i.Posture().Warnings())
		}
		return i.Posture().Digest()
	}
	usual := digest(coreBase())
	if again := digest(coreBase()); again != usual {
		t.Fatalf("control: the same base gives %s and %s", usual, again)
	}
	seen := map[string]string{usual: "the defaults"}
	for name, change := range map[string]func(*sandbox.Limits){
		"memory":        func(l *sandbox.Limits) { l.Memory = 512 << 20 },
		"processes":     func(l *sandbox.Limits) { l.Processes = 255 },
		"cpus":          func(l *sandbox.Limits) { l.MilliCPU = 500 },
		"open_files":    func(l *sandbox.Limits) { l.OpenFiles = 512 },
		"file_size":     func(l *sandbox.Limits) { l.FileSize = 512 << 20 },
		"output_kept":   func(l *sandbox.Limits) { l.OutputKept = 4 << 10 },
		"output_logged": func(l *sandbox.Limits) { l.OutputLogged = 32 << 20 },
	} {
		base := coreBase()
		change(&base.Limits)
		got := digest(base)
		if other, known := seen[got]; known {
			t.Errorf("another %s has the digest of %s", name, other)
		}
		seen[got] = "another " + name
	}
}

// TestMechanismsShowWhatWasReadBack changes what the runner read, not what was asked for.
func TestMechanismsShowWhatWasReadBack(t *testing.T) {
	ev := evidence{
		engine: &engine{}, want: exampleSpec(),
		out: container.InspectResponse{ContainerJSONBase: &container.ContainerJSONBase{HostConfig: &container.HostConfig{}}},
	}
	ev.in.Cgroup = map[string]string{"pids.max": "17", "memory.max": "1234567", "memory.swap.max": "0", "cpu.max": "25000 100000"}
	ev.in.Rlimits = map[string]wire.Rlimit{"nofile": {Soft: 33, Hard: 33}, "fsize": {Soft: 4321, Hard: 4321}}
	ev.in.Mounts = []wire.Mount{
		{Path: scratchPath, FSType: "tmpfs", Options: "rw,size=11k"},
		{Path: "/tmp", FSType: "tmpfs", Options: "rw,size=12k"},
		{Path: "/dev/shm", FSType: "tmpfs", Options: "rw,size=13k"},
	}
	for id, want := range map[sandbox.LayerID]string{
		sandbox.ProcessLimit: "cgroup pids.max=17, 33 open files in each",
		sandbox.MemoryLimit:  "cgroup memory limit 1234567 bytes, no swap",
		sandbox.CPULimit:     "cgroup quota of 0.25 cores",
		sandbox.DiskLimit:    "read-only root, files of at most 4321 bytes, /scratch size=11k, /tmp size=12k, /dev/shm size=13k, " + ev.room(),
	} {
		if l := layerRows()[id](ev); l.Mechanism != want || l.State == sandbox.Enforced {
			t.Errorf("%s: %+v, want %q and a gap", id, l, want)
		}
	}
	ev.in = wire.Observed{}
	for id, want := range map[sandbox.LayerID]string{
		sandbox.ProcessLimit: "cgroup pids.max=unknown, unlimited open files in each",
		sandbox.MemoryLimit:  "cgroup memory limit unknown bytes, swap not limited",
		sandbox.CPULimit:     "cgroup quota unknown",
	} {
		if l := layerRows()[id](ev); l.Mechanism != want || l.State != sandbox.Off {
			t.Errorf("%s: %+v, want %q and off", id, l, want)
		}
	}
}

func cloneObserved(o wire.Observed) wire.Observed {
	for _, m := range []*map[string]string{&o.Status, &o.Cgroup, &o.Attempts} {
		copied := map[string]string{}
		for k, v := range *m {
			copied[k] = v
		}
		*m = copied
	}
	o.Rlimits = maps.Clone(o.Rlimits)
	return o
}

func TestForecastAgreesWithPosture(t *testing.T) {
	b := engineBackend(t, images.Core)
	layers, err := b.Capabilities(limited(t), coreBase())
	if err != nil {
		t.Fatal(err)
	}
	p := session(t, b, coreBase(), t.TempDir()).Posture()
	for _, l := range layers {
		if got := p.Layer(l.ID); got.State != l.State || got.Code != l.Code {
			t.Errorf("%s was forecast %s (%s) and is %s (%s)", l.ID, l.State, l.Code, got.State, got.Code)
		}
	}
}
