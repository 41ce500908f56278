package docker

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/system"

	"brig/images"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// taken is what was read back of one container on one engine, as a file. Source
// says whether it was recorded from a real run (go test -run RecordEvidence -record
// NAME) or is written after the engine's documentation, as a change of a recorded one.
type taken struct {
	Source  string
	Info    system.Info
	Inspect container.InspectResponse
	Ready   wire.Ready
	Outside map[string]string
	Label   string // of the security module, from outside

	Base   string          // the recording that Change is merged into, as RFC 7386 says
	Change json.RawMessage // empty for a recording
	Want   struct {
		Layers map[sandbox.LayerID]string // "state code"; a layer that is not named is enforced
		Notes  []string                   // that some note contains
	}
}

func TestRecordedEvidence(t *testing.T) {
	files, err := filepath.Glob("testdata/evidence/*.json")
	if err != nil || len(files) < 8 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			r := read(t, file)
			p, err := posture(r.evidence(t))
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range p.Layers {
				got, want := strings.TrimSpace(string(l.State)+" "+l.Code), r.Want.Layers[l.ID]
				if want == "" {
					want = "enforced"
				}
				if got != want {
					t.Errorf("%s is %q, want %q: %s; %s; %s", l.ID, got, want, l.Mechanism, l.Reason, l.Evidence)
				}
			}
			for _, words := range r.Want.Notes {
				if !slices.ContainsFunc(p.Notes, func(note string) bool { return strings.Contains(note, words) }) {
					t.Errorf("no note says %q: %q", words, p.Notes)
				}
			}
		})
	}
}

// read loads a file, and merges it into its base if it has one.
func read(t *testing.T, file string) taken {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r taken
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	if r.Source == "" {
		t.Fatalf("%s does not say where it is from", file)
	}
	if r.Base == "" {
		return r
	}
	base, err := os.ReadFile(filepath.Join(filepath.Dir(file), r.Base+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var target, change any
	for in, out := range map[string]*any{string(base): &target, string(r.Change): &change} {
		if err := json.Unmarshal([]byte(in), out); err != nil {
			t.Fatal(err)
		}
	}
	merged, err := json.Marshal(merge(target, change))
	if err != nil {
		t.Fatal(err)
	}
	var m taken
	if err := json.Unmarshal(merged, &m); err != nil {
		t.Fatal(err)
	}
	m.Source, m.Want = r.Source, r.Want
	return m
}

// merge is RFC 7386: objects are merged, null removes, everything else replaces.
func merge(target, change any) any {
	changes, ok := change.(map[string]any)
	if !ok {
		return change
	}
	result, ok := target.(map[string]any)
	if !ok {
		result = map[string]any{}
	}
	for name, value := range changes {
		if value == nil {
			delete(result, name)
			continue
		}
		result[name] = merge(result[name], value)
	}
	return result
}

func (r taken) evidence(t *testing.T) evidence {
	t.Helper()
	e := &engine{transport: transportUnix, info: r.Info}
	s := exampleSpec()
	s.image, s.cpus = images.Ref{ID: r.Inspect.Image, Tag: "recorded"}, r.Info.NCPU
	uid, gid, _ := strings.Cut(r.Inspect.Config.User, ":")
	var err error
	if s.user.uid, err = strconv.Atoi(uid); err != nil {
		t.Fatal(err)
	}
	if s.user.gid, err = strconv.Atoi(gid); err != nil {
		t.Fatal(err)
	}
	if s.runtime, err = pickRuntime(r.Info.Runtimes, r.Info.DefaultRuntime, r.Inspect.HostConfig.Runtime); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(r.Inspect.Mounts, func(m container.MountPoint) bool { return m.Destination == workspacePath }) {
		s.workspace.directory = ""
	}
	return evidence{
		engine: e, want: s, out: r.Inspect, ready: r.Ready, in: r.Ready.Observed,
		outside: outside{groups: r.Outside, label: r.Label}, warnings: r.Info.Warnings,
	}
}

// TestEchoIsNoEvidence takes an engine that repeats all that was asked for and a
// runner that saw nothing: no layer that a kernel holds is enforced for that.
func TestEchoIsNoEvidence(t *testing.T) {
	r := read(t, "testdata/evidence/docker-20.10-cgroup1.json")
	r.Ready.Observed, r.Outside, r.Label = wire.Observed{}, nil, ""
	p, err := posture(r.evidence(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range p.Layers {
		if l.State == sandbox.Enforced && l.ID != sandbox.WallClock && l.ID != sandbox.InheritedFDs { // brig's own, and what it holds the other end of
			t.Errorf("%s is enforced by an echo: %+v", l.ID, l)
		}
	}
	// An engine that answers with next to nothing is no reason to fall over.
	bare := r.evidence(t)
	bare.out = container.InspectResponse{ContainerJSONBase: &container.ContainerJSONBase{
		Image: r.Inspect.Image, HostConfig: &container.HostConfig{},
	}, Config: &container.Config{}}
	if p, err = posture(bare); err != nil {
		t.Fatal(err)
	}
	for _, l := range p.Layers {
		if l.State == sandbox.Enforced {
			t.Errorf("%s is enforced by nothing at all: %+v", l.ID, l)
		}
	}
	bare.out.HostConfig = nil
	if _, err := posture(bare); err == nil {
		t.Error("a container without a configuration has a posture")
	}
}

// TestWarningsAreNotes: what an engine warns of is shown, and cannot act on a terminal.
func TestWarningsAreNotes(t *testing.T) {
	r := read(t, "testdata/evidence/docker-20.10-cgroup1.json")
	r.Info.Warnings = []string{"Your kernel does not support swap limit\x1b[2J capabilities.\nMemory limited without swap."}
	p, err := posture(r.evidence(t))
	if err != nil {
		t.Fatal(err)
	}
	if last := p.Notes[len(p.Notes)-1]; last != "the engine warned: Your kernel does not support swap limit[2J capabilities. Memory limited without swap." {
		t.Errorf("%q", last)
	}
}

// TestTCPBuffersCounted: version 1 counts them apart, and what limits them is read back.
func TestTCPBuffersCounted(t *testing.T) {
	const file, limit = "memory.kmem.tcp.limit_in_bytes", "134217728"
	for name, c := range map[string]struct {
		recording, inside, outside string
		noted                      bool
	}{
		"not read":           {"docker-20.10-cgroup1", "", "", true},
		"without a limit":    {"docker-20.10-cgroup1", "9223372036854771712", "9223372036854771712", true},
		"only inside":        {"docker-20.10-cgroup1", limit, "9223372036854771712", true},
		"limited":            {"docker-20.10-cgroup1", limit, limit, false},
		"part of the memory": {"docker-28-cgroup2-systemd", "", "", false},
		"of a guest":         {"docker-20.10-runsc", "", "", false},
	} {
		ev := read(t, "testdata/evidence/"+c.recording+".json").evidence(t)
		if c.inside != "" {
			ev.in.Cgroup[file], ev.outside.groups[file] = c.inside, c.outside
		}
		p, err := posture(ev)
		if err != nil {
			t.Fatal(err)
		}
		says := strings.Contains(p.Layer(sandbox.MemoryLimit).Mechanism, "without the buffers of TCP")
		if noted := strings.Contains(strings.Join(p.Notes, "\n"), "net.ipv4.tcp_mem"); noted != c.noted || says != c.noted {
			t.Errorf("%s: noted %t, in the mechanism %t, want %t", name, noted, says, c.noted)
		}
	}
}

// TestEachEvidenceCounts changes one observation at a time, inside or outside: the
// layer that rests on it falls.
func TestEachEvidenceCounts(t *testing.T) {
	const recording = "testdata/evidence/docker-20.10-cgroup1.json"
	control, err := posture(read(t, recording).evidence(t))
	if err != nil {
		t.Fatal(err)
	}
	remount := func(path, without string) func(*evidence) {
		return func(ev *evidence) {
			for i, m := range ev.in.Mounts {
				if m.Path == path {
					ev.in.Mounts[i].Options = strings.ReplaceAll(m.Options, without, "")
				}
			}
		}
	}
	for _, c := range []struct {
		name   string
		layer  sandbox.LayerID
		state  sandbox.LayerState
		change func(*evidence)
	}{
		{"a masked file speaks", sandbox.FSRead, sandbox.Off, func(ev *evidence) { ev.in.Attempts["read_masked"] = "ok" }},
		{"a masked file was not tried", sandbox.FSRead, sandbox.Partial, func(ev *evidence) { delete(ev.in.Attempts, "read_masked") }},
		{"settings writable", sandbox.FSWrite, sandbox.Partial, remount("/proc/sys", "ro,")},
		{"root writable", sandbox.FSWrite, sandbox.Off, remount("/", "ro,")},
		{"scratch with programs", sandbox.FSWrite, sandbox.Partial, remount("/tmp", "noexec,")},
		{"scratch with set-id files", sandbox.FSWrite, sandbox.Partial, remount(scratchPath, "nosuid,")},
		{"shared memory with devices", sandbox.FSWrite, sandbox.Partial, remount("/dev/shm", "nodev,")},
		{"a device inside", sandbox.Devices, sandbox.Off, func(ev *evidence) { ev.in.Devices = append(ev.in.Devices, "kvm") }},
		{"devices not listed", sandbox.Devices, sandbox.Partial, func(ev *evidence) { ev.in.Devices = nil }},
		{"a variable inside", sandbox.Environment, sandbox.Off, func(ev *evidence) { ev.in.Environ = append(ev.in.Environ, "AWS_SECRET") }},
		{"variables not listed", sandbox.Environment, sandbox.Partial, func(ev *evidence) { ev.in.Environ = nil }},
		{"another user inside", sandbox.Capabilities, sandbox.Off, func(ev *evidence) { ev.in.UID = 0 }},
		{"capabilities to be had", sandbox.Capabilities, sandbox.Off, func(ev *evidence) { ev.in.Status["CapBnd"] = "00000000a80425fb" }},
		{"a directory of the machine", sandbox.FSRead, sandbox.Off, func(ev *evidence) { ev.out.Mounts = append(ev.out.Mounts, container.MountPoint{Destination: "/home"}) }},
		{"a writable directory of the machine", sandbox.FSWrite, sandbox.Off, func(ev *evidence) {
			ev.out.Mounts = append(ev.out.Mounts, container.MountPoint{Destination: "/home", RW: true})
		}},
		{"the network of the machine", sandbox.UnixSockets, sandbox.Off, func(ev *evidence) { ev.out.HostConfig.NetworkMode = "host" }},
		{"a network", sandbox.NetLoopback, sandbox.Off, func(ev *evidence) { ev.out.HostConfig.NetworkMode = "bridge" }},
		{"the processes of the machine, for reading", sandbox.FSRead, sandbox.Off, func(ev *evidence) { ev.out.HostConfig.PidMode = "host" }},
		{"the processes of the machine, for writing", sandbox.FSWrite, sandbox.Off, func(ev *evidence) { ev.out.HostConfig.PidMode = "host" }},
		{"the shared memory of the machine", sandbox.FSRead, sandbox.Partial, func(ev *evidence) { ev.out.HostConfig.IpcMode = "host" }},
		{"terminals of the machine", sandbox.Devices, sandbox.Off, func(ev *evidence) {
			ev.out.Mounts = append(ev.out.Mounts, container.MountPoint{Destination: "/dev/pts"})
		}},
		{"sockets of the machine", sandbox.UnixSockets, sandbox.Partial, func(ev *evidence) { ev.out.Mounts = append(ev.out.Mounts, container.MountPoint{Destination: "/run"}) }},
		{"the ipc of the machine", sandbox.UnixSockets, sandbox.Off, func(ev *evidence) { ev.out.HostConfig.IpcMode = "host" }},
		{"every capability", sandbox.Capabilities, sandbox.Off, func(ev *evidence) {
			for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
				ev.in.Status[set] = "000001ffffffffff"
			}
		}},
		{"new privileges", sandbox.NoNewPrivs, sandbox.Off, func(ev *evidence) { ev.in.Status["NoNewPrivs"] = "0" }},
		{"no filter", sandbox.SyscallFilter, sandbox.Off, func(ev *evidence) { ev.in.Status["Seccomp"] = "0" }},
		{"strict mode is no filter", sandbox.SyscallFilter, sandbox.Off, func(ev *evidence) { ev.in.Status["Seccomp"] = "1" }},
		{"no process limit inside", sandbox.ProcessLimit, sandbox.Off, func(ev *evidence) { ev.in.Cgroup["pids.max"] = "max" }},
		{"another process limit inside", sandbox.ProcessLimit, sandbox.Partial, func(ev *evidence) { ev.in.Cgroup["pids.max"] = "512" }},
		{"no process limit outside", sandbox.ProcessLimit, sandbox.Off, func(ev *evidence) { ev.outside.groups["pids.max"] = "max" }},
		{"another process limit outside", sandbox.ProcessLimit, sandbox.Partial, func(ev *evidence) { ev.outside.groups["pids.max"] = "512" }},
		{"no memory limit inside", sandbox.MemoryLimit, sandbox.Off, func(ev *evidence) { ev.in.Cgroup["memory.limit_in_bytes"] = "9223372036854771712" }},
		{"memory only outside", sandbox.MemoryLimit, sandbox.Partial, func(ev *evidence) { delete(ev.in.Cgroup, "memory.limit_in_bytes") }},
		{"swap on top", sandbox.MemoryLimit, sandbox.Partial, func(ev *evidence) { ev.in.Cgroup["memory.memsw.limit_in_bytes"] = "2147483648" }},
		{"another quota outside", sandbox.CPULimit, sandbox.Partial, func(ev *evidence) { ev.outside.groups["cpu.cfs_quota_us"] = "100000" }},
		{"no quota inside", sandbox.CPULimit, sandbox.Off, func(ev *evidence) { ev.in.Cgroup["cpu.cfs_quota_us"] = "-1" }},
		{"other output bounds", sandbox.OutputLimit, sandbox.Partial, func(ev *evidence) { ev.in.Bounds.Kept++ }},
		{"core files", sandbox.DiskLimit, sandbox.Partial, func(ev *evidence) { ev.in.Rlimits["core"] = wire.Rlimit{Soft: -1, Hard: -1} }},
		{"another runtime", sandbox.KernelSurface, sandbox.Off, func(ev *evidence) { ev.out.HostConfig.Runtime = "kata" }},
		{"a guest that nobody named", sandbox.KernelSurface, sandbox.Partial, func(ev *evidence) { ev.in.Kernel = "Linux version 4.19.0-gvisor" }},
	} {
		ev := read(t, recording).evidence(t)
		c.change(&ev)
		p, err := posture(ev)
		if err != nil {
			t.Fatal(err)
		}
		before, after := control.Layer(c.layer), p.Layer(c.layer)
		if after.State != c.state || after.State == before.State && after.Code == before.Code {
			t.Errorf("%s: %s was %s and is %s (%s: %s), want %s", c.name, c.layer, before.State, after.State, after.Code, after.Reason, c.state)
		}
	}
}
