package hostfallback

import (
	"slices"
	"strings"
	"testing"

	"brig/hostfallback/confine"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// whole is the report of a machine that offers everything.
func whole() confine.Report {
	return confine.Report{
		Kernel: "6.18", UID: 1000, Namespace: confine.Layer{Applied: true}, PrivateShm: true,
		Namespaces: confine.Namespaces{Root: confine.Layer{Applied: true}, Process: confine.Layer{Applied: true}, Network: confine.Layer{Applied: true}},
		Cgroup:     confine.Cgroup{Layer: confine.Layer{Code: confine.CodeCgroupDelegation}},
		Limits:     map[string]uint64{"core": 0, "data": 1 << 30, "fsize": 1 << 30, "nofile": 1024, "nproc": 256},
		CPUs:       2, Processors: []int{0, 1}, NoNewPrivs: true, CapEff: strings.Repeat("0", 16),
		Kept: []int{0, 1, 2}, Closed: 5, Variables: []string{"HOME", "PATH"},
		Landlock: confine.Landlock{
			Layer: confine.Layer{Applied: true}, ABI: 7, Used: 7, Errata: 7, Net: true,
			Handled: confine.Handled{FS: 0xffff, Net: 3, Scoped: 3}, Rules: 30, ByKind: confine.Rules{Write: 2, Execute: 7, Read: 19, Devices: 1, Shm: 1},
		},
		Seccomp: confine.Seccomp{
			Layer: confine.Layer{Applied: true}, Arch: "x86-64", Filter: confine.Filter{Metadata: true}, Length: 156, Hash: "abc",
		},
	}
}

// watched is what a supervisor reports that was told the defaults.
func watched() confine.Watch {
	l := sandbox.DefaultLimits()
	return confine.Watch{Subreaper: true, Memory: l.Memory, Processes: l.Processes, Disk: l.Workspace}
}

// calm is what a runner observes when everything holds.
func calm() *wire.Observed {
	return &wire.Observed{
		Status: map[string]string{
			"NSpid": "1", "NoNewPrivs": "1", "Seccomp": "2", "CapEff": strings.Repeat("0", 16), "CapPrm": strings.Repeat("0", 16), "CapAmb": strings.Repeat("0", 16),
		},
		Rlimits:    map[string]wire.Rlimit{"data": {Soft: 1 << 30, Hard: 1 << 30}},
		Bounds:     sandbox.DefaultLimits().Bounds(),
		Namespaces: map[string]string{"ipc": "ipc:[2]", "mnt": "mnt:[2]", "net": "net:[2]", "pid": "pid:[2]", "user": "user:[2]"},
		PID:        1,
		Attempts: map[string]string{
			"stat_outside": "ENOENT", "bind_loopback": "EACCES", "write_root": "EROFS", "chmod_root": "EROFS", "socket_inet": "EACCES", "socket_unix": "EACCES", "socket_netlink": "EAFNOSUPPORT",
			"socket_vsock": "EAFNOSUPPORT", "io_uring_setup": "ENOSYS", "ptrace_traceme": "EPERM", "keyctl": "EPERM", "mount": "EPERM",
			"unshare_user": "EPERM", "kill_parent": "unavailable", "list_outside": "EACCES", "write_workspace": "ok", "write_scratch": "ok",
		},
	}
}

// brigSpaces are the namespaces that brig is in.
func brigSpaces() map[string]string {
	return map[string]string{"ipc": "ipc:[1]", "mnt": "mnt:[1]", "net": "net:[1]", "pid": "pid:[1]", "user": "user:[1]"}
}

// TestLayers: what each row says on machines that are not at hand. Rows that a
// case does not name are enforced, apart from the limits that can only be watched.
func TestLayers(t *testing.T) {
	alwaysPartial := map[sandbox.LayerID]string{
		sandbox.MemoryLimit: "partial cgroup-not-delegated", sandbox.DiskLimit: "partial disk-watched-only",
		sandbox.KernelSurface: "partial shared-kernel",
	}
	landlock := func(r *confine.Report, used int) {
		r.Landlock.ABI, r.Landlock.Used, r.Landlock.Net = used, used, used >= 4
	}
	noNamespace := func(code string) func(*evidence) {
		return func(e *evidence) {
			e.report.Namespace, e.report.Namespaces = confine.Layer{Code: code, Errno: "EPERM"}, confine.Namespaces{}
			e.observed.Attempts["stat_outside"], e.observed.Attempts["kill_parent"] = "ok", "EPERM"
			e.observed.Namespaces = brigSpaces()
			e.report.PrivateShm, e.report.SharedShm = false, true
		}
	}
	// noParts is a namespace of users and mounts, and nothing more of that kind.
	noParts := func(e *evidence) {
		e.report.Namespaces = confine.Namespaces{
			Root: confine.Layer{Code: confine.CodeMountRefused}, Process: confine.Layer{Code: confine.CodePIDRefused}, Network: confine.Layer{Code: confine.CodeNetRefused},
		}
		e.observed.Attempts["stat_outside"], e.observed.Attempts["kill_parent"] = "ok", "EPERM"
		e.observed.Namespaces["pid"], e.observed.Namespaces["net"] = brigSpaces()["pid"], brigSpaces()["net"]
	}
	noLandlock := func(code string) func(*evidence) {
		return func(e *evidence) {
			e.report.Landlock = confine.Landlock{Layer: confine.Layer{Code: code}}
		}
	}
	// Where signals reach brig, its timer and its sweep hold only as long as it lives.
	reached := []string{
		"abi 1", "abi 2 behind a namespace", "abi 5", "abi 6 without its correction", "no landlock and no parts", "nothing of it was done",
		"who may mount undoes a view", "no landlock, no namespace", "namespaces that are brig's", "processes of another namespace", "off",
		"the runner sees something else",
	}
	cases := []struct {
		name   string
		change func(*evidence)
		want   map[sandbox.LayerID]string
	}{
		{"everything", func(*evidence) {}, nil},
		{"forecast", func(e *evidence) { e.observed = nil }, nil},
		{"abi 1", func(e *evidence) { landlock(&e.report, 1); noNamespace(confine.CodeUsernsSysctl)(e) }, map[sandbox.LayerID]string{
			sandbox.FSWrite: "partial landlock-abi-1-lacks-truncate", sandbox.FSRead: "partial userns-sysctl",
			sandbox.Signals: "partial landlock-abi-1-lacks-scope", sandbox.ProcessLimit: "partial nproc-per-user",
		}},
		{"abi 2 behind a namespace", func(e *evidence) { noParts(e); landlock(&e.report, 2) }, map[sandbox.LayerID]string{
			sandbox.Signals: "partial landlock-abi-2-lacks-scope",
		}},
		{"abi 5", func(e *evidence) { noParts(e); landlock(&e.report, 5) }, map[sandbox.LayerID]string{
			sandbox.Signals: "partial landlock-abi-5-lacks-scope",
		}},
		{"abi 6 without its correction", func(e *evidence) { noParts(e); landlock(&e.report, 5); e.report.Landlock.ABI = 6 }, map[sandbox.LayerID]string{
			sandbox.Signals: "partial landlock-erratum-signal",
		}},
		{"abi 9", func(e *evidence) {
			landlock(&e.report, 9)
			e.report.Seccomp.Filter.Unix = true
			e.observed.Attempts["socket_unix"] = "ok"
		}, nil},
		{"apparmor", noNamespace(confine.CodeUsernsAppArmor), map[sandbox.LayerID]string{
			sandbox.FSWrite: "partial userns-apparmor", sandbox.FSRead: "partial userns-apparmor", sandbox.ProcessLimit: "partial nproc-per-user",
		}},
		{"require without a namespace", func(e *evidence) {
			noNamespace(confine.CodeUsernsRefused)(e)
			e.report.SharedShm, e.report.Seccomp.Filter.Metadata = false, false
		}, map[sandbox.LayerID]string{sandbox.ProcessLimit: "partial nproc-per-user"}},
		{"no landlock behind everything else", noLandlock(confine.CodeLandlockNotBuilt), nil},
		{"no landlock and no parts", func(e *evidence) { noParts(e); noLandlock(confine.CodeLandlockNotBuilt)(e) }, map[sandbox.LayerID]string{
			sandbox.FSRead: "unsupported landlock-not-built", sandbox.Signals: "unsupported landlock-not-built",
			sandbox.Devices: "unsupported landlock-not-built", sandbox.FSWrite: "partial landlock-missing",
		}},
		{"nothing of it was done", func(e *evidence) {
			e.report.Landlock, e.report.Seccomp, e.report.Namespace = confine.Landlock{}, confine.Seccomp{}, confine.Layer{Code: confine.CodeNotAsked}
			e.report.Namespaces = confine.Namespaces{}
			e.report.PrivateShm = false
			e.report.NoNewPrivs, e.report.CapEff, e.report.Limits, e.watch = false, "0000000000200100", nil, confine.Watch{}
			e.report.Kept = append(e.report.Kept, 9)
			e.report.Variables = append(e.report.Variables, "AWS_SECRET")
		}, map[sandbox.LayerID]string{
			sandbox.FSWrite: "off not-applied", sandbox.FSRead: "off not-applied", sandbox.NetOutbound: "off not-applied", sandbox.NetLoopback: "off not-applied",
			sandbox.UnixSockets: "off not-applied", sandbox.ProcessLimit: "off not-applied", sandbox.MemoryLimit: "off not-watched",
			sandbox.DiskLimit: "off not-watched", sandbox.NoNewPrivs: "off not-applied", sandbox.Capabilities: "off not-applied",
			sandbox.SyscallFilter: "off not-applied", sandbox.Signals: "off not-applied", sandbox.Ptrace: "off not-applied", sandbox.Devices: "off not-applied",
			sandbox.InheritedFDs: "off descriptors-left", sandbox.Environment: "off foreign-variable", sandbox.KernelSurface: "off not-applied",
			sandbox.TreeKill: "off not-applied",
		}},
		{"a variable that only the runner saw", func(e *evidence) { e.observed.Environ = []string{"AWS_SECRET", "HOME", "LC_CTYPE"} }, map[sandbox.LayerID]string{
			sandbox.Environment: "off foreign-variable",
		}},
		{"who may mount undoes a view beside landlock", func(e *evidence) {
			noParts(e)
			e.report.Seccomp, e.report.CapEff = confine.Seccomp{Layer: confine.Layer{Code: confine.CodeSeccompNotBuilt}}, "0000000000200100"
		}, map[sandbox.LayerID]string{
			sandbox.FSWrite: "partial capabilities-left", sandbox.Capabilities: "off not-applied", sandbox.SyscallFilter: "unsupported seccomp-not-built",
			sandbox.KernelSurface: "unsupported seccomp-not-built", sandbox.NetOutbound: "partial landlock-tcp-only", sandbox.NetLoopback: "partial landlock-tcp-only",
			sandbox.UnixSockets: "partial landlock-abi-7-lacks-unix",
		}},
		{"who may mount undoes a view", func(e *evidence) {
			noParts(e)
			noLandlock(confine.CodeLandlockNotBuilt)(e)
			e.report.Seccomp, e.report.CapEff = confine.Seccomp{Layer: confine.Layer{Code: confine.CodeSeccompNotBuilt}}, "0000000000200100"
		}, map[sandbox.LayerID]string{
			sandbox.FSWrite: "unsupported landlock-not-built", sandbox.FSRead: "unsupported landlock-not-built", sandbox.Signals: "unsupported landlock-not-built",
			sandbox.Devices: "unsupported landlock-not-built", sandbox.Capabilities: "off not-applied", sandbox.SyscallFilter: "unsupported seccomp-not-built",
			sandbox.KernelSurface: "unsupported seccomp-not-built", sandbox.NetOutbound: "unsupported seccomp-not-built", sandbox.NetLoopback: "unsupported seccomp-not-built",
			sandbox.UnixSockets: "unsupported seccomp-not-built",
		}},
		{"no landlock, no namespace", func(e *evidence) {
			noLandlock(confine.CodeLandlockNotBoot)(e)
			noNamespace(confine.CodeUsernsRefused)(e)
			e.report.SharedShm = false
		}, map[sandbox.LayerID]string{
			sandbox.FSRead: "unsupported landlock-not-booted", sandbox.FSWrite: "unsupported landlock-not-booted",
			sandbox.Signals: "unsupported landlock-not-booted", sandbox.Devices: "unsupported landlock-not-booted",
			sandbox.Ptrace: "partial landlock-missing", sandbox.ProcessLimit: "partial nproc-per-user",
		}},
		{"no seccomp and no parts", func(e *evidence) {
			noParts(e)
			e.report.Seccomp = confine.Seccomp{Layer: confine.Layer{Code: confine.CodeSeccompNotBuilt}}
			e.observed.Status["Seccomp"] = "0"
			for a := range e.observed.Attempts {
				if strings.HasPrefix(a, "socket") || a == "ptrace_traceme" {
					e.observed.Attempts[a] = "ok"
				}
			}
		}, map[sandbox.LayerID]string{
			sandbox.NetOutbound: "partial landlock-tcp-only", sandbox.NetLoopback: "partial landlock-tcp-only",
			sandbox.UnixSockets: "partial landlock-abi-7-lacks-unix", sandbox.SyscallFilter: "unsupported seccomp-not-built",
			sandbox.KernelSurface: "unsupported seccomp-not-built",
		}},
		{"network allowed", func(e *evidence) {
			e.base.Network = sandbox.NetworkAllow
			e.report.Landlock.Net, e.report.Seccomp.Filter.Inet = false, true
			e.observed.Attempts["socket_inet"] = "ok"
		}, map[sandbox.LayerID]string{
			sandbox.NetOutbound: "off host-network-allow", sandbox.NetLoopback: "off host-network-allow",
		}},
		{"root", func(e *evidence) { e.report.UID = 0 }, map[sandbox.LayerID]string{sandbox.ProcessLimit: "partial nproc-root"}},
		{"many processors", func(e *evidence) { e.report.Narrowed = true }, map[sandbox.LayerID]string{sandbox.CPULimit: "partial cgroup-not-delegated"}},
		{"a control group", func(e *evidence) {
			l := sandbox.DefaultLimits()
			e.report.UID, e.report.Narrowed = 0, true
			e.report.Cgroup = confine.Cgroup{Layer: confine.Layer{Applied: true}, Path: "/user/brig-1", Memory: l.Memory, Processes: l.Processes, MilliCPU: l.MilliCPU, Kill: true}
			e.observed.CgroupPath = "/user/brig-1"
		}, map[sandbox.LayerID]string{sandbox.MemoryLimit: "enforced"}},
		{"a control group that allows too much", func(e *evidence) {
			l := sandbox.DefaultLimits()
			e.report.Cgroup = confine.Cgroup{Layer: confine.Layer{Applied: true}, Path: "/user/brig-1", Memory: l.Memory + 1, Processes: l.Processes + 1, MilliCPU: l.MilliCPU + 1}
		}, map[sandbox.LayerID]string{sandbox.MemoryLimit: "partial rlimit-per-process-only"}},
		{"another control group than reported", func(e *evidence) {
			l := sandbox.DefaultLimits()
			e.report.Cgroup = confine.Cgroup{Layer: confine.Layer{Applied: true}, Path: "/user/brig-1", Memory: l.Memory, Processes: l.Processes, MilliCPU: l.MilliCPU, Kill: true}
			e.observed.CgroupPath = "/user/session-2"
		}, map[sandbox.LayerID]string{
			sandbox.MemoryLimit: "off probe-disagrees", sandbox.ProcessLimit: "off probe-disagrees", sandbox.CPULimit: "off probe-disagrees", sandbox.TreeKill: "off probe-disagrees",
		}},
		{"no parts", noParts, nil},
		{"abi 1 behind everything", func(e *evidence) { landlock(&e.report, 1) }, nil},
		{"no seccomp behind everything", func(e *evidence) {
			e.report.Seccomp = confine.Seccomp{Layer: confine.Layer{Code: confine.CodeSeccompArch}}
			e.observed.Status["Seccomp"] = "0"
			for a := range e.observed.Attempts {
				if strings.HasPrefix(a, "socket") || a == "ptrace_traceme" {
					e.observed.Attempts[a] = "ok"
				}
			}
		}, map[sandbox.LayerID]string{
			sandbox.NetOutbound: "partial netns-lacks-vsock", sandbox.NetLoopback: "partial netns-lacks-vsock",
			sandbox.SyscallFilter: "unsupported seccomp-arch-unsupported", sandbox.KernelSurface: "unsupported seccomp-arch-unsupported",
		}},
		{"unix sockets because nothing is there to reach", func(e *evidence) {
			e.report.Seccomp.Filter.Unix = true
			e.observed.Attempts["socket_unix"] = "ok"
		}, nil},
		{"unix sockets, and one that can be met", func(e *evidence) {
			e.report.Seccomp.Filter.Unix = true
			e.observed.Attempts["socket_unix"] = "ok"
			e.sockets = []string{"/home/ada/.venv/app.sock"}
		}, map[sandbox.LayerID]string{sandbox.UnixSockets: "partial sockets-in-grants"}},
		{"one that could be met if sockets were allowed", func(e *evidence) { e.sockets = []string{"/home/ada/.venv/app.sock"} }, nil},
		{"one that Landlock sees", func(e *evidence) {
			landlock(&e.report, 9)
			e.report.Seccomp.Filter.Unix, e.sockets = true, []string{"/home/ada/.venv/app.sock"}
			e.observed.Attempts["socket_unix"] = "ok"
		}, nil},
		{"unix sockets without a network of its own", func(e *evidence) {
			e.report.Seccomp.Filter.Unix = true
			e.report.Namespaces.Network = confine.Layer{Code: confine.CodeNetRefused}
			noLandlock(confine.CodeLandlockNotBuilt)(e)
			e.observed.Attempts["socket_unix"] = "ok"
		}, map[sandbox.LayerID]string{sandbox.UnixSockets: "partial abstract-names-shared"}},
		{"loopback", func(e *evidence) {
			e.base.Network = sandbox.NetworkLoopback
			e.report.Namespaces.Loopback, e.report.Landlock.Net, e.report.Seccomp.Filter.Inet = true, false, true
			for _, a := range []string{"socket_inet", "socket_netlink", "bind_loopback"} {
				e.observed.Attempts[a] = "ok"
			}
		}, nil},
		{"loopback that is the machine's", func(e *evidence) {
			e.base.Network = sandbox.NetworkLoopback
			e.report.Namespaces.Network, e.report.Landlock.Net, e.report.Seccomp.Filter.Inet = confine.Layer{Code: confine.CodeNetRefused}, false, true
			e.observed.Attempts["socket_inet"] = "ok"
		}, map[sandbox.LayerID]string{sandbox.NetOutbound: "off host-network-loopback", sandbox.NetLoopback: "off host-network-loopback"}},
		{"namespaces that are brig's", func(e *evidence) { e.observed.Namespaces = brigSpaces() }, map[sandbox.LayerID]string{
			sandbox.FSWrite: "off probe-disagrees", sandbox.FSRead: "off probe-disagrees", sandbox.NetOutbound: "off probe-disagrees", sandbox.NetLoopback: "off probe-disagrees",
			sandbox.ProcessLimit: "off probe-disagrees", sandbox.Signals: "off probe-disagrees", sandbox.Ptrace: "off probe-disagrees", sandbox.Devices: "off probe-disagrees",
			sandbox.TreeKill: "off probe-disagrees",
		}},
		{"a root with more in it", func(e *evidence) { e.observed.Attempts["stat_outside"] = "ok" }, map[sandbox.LayerID]string{
			sandbox.FSWrite: "off probe-disagrees", sandbox.FSRead: "off probe-disagrees", sandbox.Devices: "off probe-disagrees",
		}},
		{"a root with a foreign device", func(e *evidence) { e.observed.Devices = []string{"kvm", "null"} }, map[sandbox.LayerID]string{sandbox.Devices: "off probe-disagrees"}},
		{"processes of another namespace", func(e *evidence) { e.observed.Status["NSpid"] = "4711 1" }, map[sandbox.LayerID]string{
			sandbox.Signals: "off probe-disagrees", sandbox.Ptrace: "off probe-disagrees",
		}},
		{"off", func(e *evidence) {
			e.base.Mode = sandbox.ModeOff
			e.report.Namespace, e.report.Namespaces, e.report.Cgroup = confine.Layer{Code: confine.CodeOff}, confine.Namespaces{}, confine.Cgroup{}
			e.report.PrivateShm = false
			e.report.Landlock = confine.Landlock{Layer: confine.Layer{Code: confine.CodeOff}}
			e.report.Seccomp = confine.Seccomp{Layer: confine.Layer{Code: confine.CodeOff}}
			e.observed.Status["Seccomp"] = "0"
		}, map[sandbox.LayerID]string{
			sandbox.FSWrite: "off host-sandbox-off", sandbox.FSRead: "off host-sandbox-off", sandbox.NetOutbound: "off host-sandbox-off",
			sandbox.NetLoopback: "off host-sandbox-off", sandbox.UnixSockets: "off host-sandbox-off", sandbox.SyscallFilter: "off host-sandbox-off",
			sandbox.Signals: "off host-sandbox-off", sandbox.Ptrace: "off host-sandbox-off", sandbox.Devices: "off host-sandbox-off",
			sandbox.KernelSurface: "off host-sandbox-off", sandbox.ProcessLimit: "partial nproc-per-user",
			sandbox.MemoryLimit: "partial rlimit-per-process-only",
		}},
		{"the runner sees something else", func(e *evidence) {
			noParts(e)
			e.observed.Attempts["socket_inet"] = "ok"
			e.observed.Attempts["write_root"] = "ok"
			e.observed.Attempts["kill_parent"] = "ok"
			e.observed.Attempts["list_outside"] = "ok"
			e.observed.Attempts["keyctl"] = "ok"
			e.observed.Rlimits["data"] = wire.Rlimit{Soft: 1 << 30, Hard: -1}
			e.observed.Rlimits["fsize"] = wire.Rlimit{Soft: 1, Hard: 1 << 40}
			e.observed.Rlimits["nofile"] = wire.Rlimit{Soft: 1024, Hard: 4096}
			e.observed.Bounds.Kept++
			e.observed.Status["NoNewPrivs"] = "0"
			e.observed.Status["Seccomp"] = "0"
			e.observed.Status["CapEff"] = "00000000a80425fb"
		}, map[sandbox.LayerID]string{
			sandbox.NetOutbound: "off probe-disagrees", sandbox.NetLoopback: "off probe-disagrees", sandbox.FSWrite: "off probe-disagrees",
			sandbox.Signals: "off probe-disagrees", sandbox.NoNewPrivs: "off probe-disagrees", sandbox.SyscallFilter: "off probe-disagrees",
			sandbox.Capabilities: "off probe-disagrees", sandbox.FSRead: "off probe-disagrees", sandbox.MemoryLimit: "off probe-disagrees",
			sandbox.DiskLimit: "off probe-disagrees", sandbox.ProcessLimit: "off probe-disagrees", sandbox.OutputLimit: "off probe-disagrees",
			sandbox.KernelSurface: "off probe-disagrees",
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			e := evidence{report: whole(), watch: watched(), observed: calm(), outside: brigSpaces(), base: testBaseOf(sandbox.ModeBestEffort)}
			c.change(&e)
			rows := layers(e)
			if err := sandbox.Complete(rows); err != nil {
				t.Fatal(err)
			}
			for _, row := range rows {
				if row.ID == sandbox.Seclusion {
					continue // has a table of its own, TestSeclusion
				}
				got := strings.TrimSpace(string(row.State) + " " + row.Code)
				want := "enforced"
				if w, ok := alwaysPartial[row.ID]; ok {
					want = w
				}
				if (row.ID == sandbox.WallClock || row.ID == sandbox.TreeKill) && slices.Contains(reached, c.name) {
					want = "partial signals-reach-brig"
				}
				if w, ok := c.want[row.ID]; ok {
					want = w
				}
				if got != want {
					t.Errorf("%s: got %q, want %q", row.ID, got, want)
				}
				if row.State != sandbox.Enforced && row.Remedy == "" {
					t.Errorf("%s: a gap without a remedy", row.ID)
				}
				if row.Evidence == "" && (e.observed != nil || row.ID != sandbox.OutputLimit) {
					t.Errorf("%s: no evidence", row.ID)
				}
			}
		})
	}
}

func testBaseOf(mode sandbox.Mode) sandbox.Base {
	return sandbox.Base{Network: sandbox.NetworkDeny, Mode: mode, Limits: sandbox.DefaultLimits()}
}

func TestPromised(t *testing.T) {
	if ids := promised(sandbox.Base{Network: sandbox.NetworkAllow}); slices.Contains(ids, sandbox.NetOutbound) {
		t.Error("a closed network is promised although it was opened by name")
	}
	if err := satisfies(testBaseOf(sandbox.ModeRequire), layers(evidence{report: whole(), watch: watched(), observed: calm(), base: testBaseOf(sandbox.ModeRequire)})); err != nil {
		t.Errorf("require refuses a whole machine: %v", err)
	}
	gap := whole()
	gap.Landlock.Used, gap.Namespaces = 5, confine.Namespaces{}
	rows := layers(evidence{report: gap, base: testBaseOf(sandbox.ModeRequire)})
	err := satisfies(testBaseOf(sandbox.ModeRequire), rows)
	if err == nil || !strings.Contains(err.Error(), "signals is partial") {
		t.Errorf("require accepts a gap: %v", err)
	}
	if err := satisfies(testBaseOf(sandbox.ModeBestEffort), rows); err != nil {
		t.Errorf("best-effort refuses a gap: %v", err)
	}
}

// TestAgrees: a report that does not fit the plan is found.
func TestAgrees(t *testing.T) {
	plan := confine.Plan{Env: []string{"HOME=/", "PATH=/bin"}, Policy: confine.Policy{Mode: confine.ModeBestEffort, Network: confine.NetworkDeny, Limits: confine.Limits{Memory: 1 << 30, OpenFiles: 1024, FileSize: 1 << 30}}}
	good := func() confine.Report {
		r := whole()
		r.Seccomp.Filter.Unix = true // where no socket of the user can be seen
		r.Seccomp.Hash, _ = confine.FilterHash("amd64", r.Seccomp.Filter)
		return r
	}
	if err := agreesOn("amd64", plan, good()); err != nil {
		t.Fatalf("control: %v", err)
	}
	for name, change := range map[string]func(*confine.Report){
		"privileges":    func(r *confine.Report) { r.NoNewPrivs = false },
		"limit missing": func(r *confine.Report) { delete(r.Limits, "data") },
		"limit higher":  func(r *confine.Report) { r.Limits["nofile"] = 4096 },
		"descriptors":   func(r *confine.Report) { r.Kept = append(r.Kept, 7) },
		"environment":   func(r *confine.Report) { r.Variables = append(r.Variables, "AWS_SECRET") },
		"other filter":  func(r *confine.Report) { r.Seccomp.Hash = "0" },
		"network": func(r *confine.Report) {
			r.Seccomp.Filter.Inet = true
			r.Seccomp.Hash, _ = confine.FilterHash("amd64", r.Seccomp.Filter)
		},
		"unix sockets": func(r *confine.Report) {
			r.Namespaces.Root = confine.Layer{Code: confine.CodeMountRefused}
			r.Seccomp.Hash, _ = confine.FilterHash("amd64", r.Seccomp.Filter)
		},
	} {
		r := good()
		change(&r)
		if err := agreesOn("amd64", plan, r); err == nil {
			t.Errorf("%s: not noticed", name)
		}
	}
}
