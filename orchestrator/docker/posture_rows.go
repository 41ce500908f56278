package docker

import (
	"fmt"
	"slices"
	"strings"

	"brig/orchestrator/sandbox"
)

// layerRows is how each layer is judged from the evidence. Limits are in posture_limits.go.
func layerRows() map[sandbox.LayerID]func(evidence) sandbox.Layer {
	return map[sandbox.LayerID]func(evidence) sandbox.Layer{
		sandbox.FSWrite:       fsWrite,
		sandbox.FSRead:        fsRead,
		sandbox.NetOutbound:   netOutbound,
		sandbox.NetLoopback:   netLoopback,
		sandbox.UnixSockets:   unixSockets,
		sandbox.ProcessLimit:  processLimit,
		sandbox.MemoryLimit:   memoryLimit,
		sandbox.CPULimit:      cpuLimit,
		sandbox.DiskLimit:     diskLimit,
		sandbox.OutputLimit:   outputLimit,
		sandbox.WallClock:     wallClock,
		sandbox.NoNewPrivs:    noNewPrivs,
		sandbox.Capabilities:  capabilities,
		sandbox.SyscallFilter: syscallFilter,
		sandbox.Signals:       signals,
		sandbox.Ptrace:        ptrace,
		sandbox.InheritedFDs:  inheritedFDs,
		sandbox.Environment:   environmentLayer,
		sandbox.Devices:       devices,
		sandbox.KernelSurface: kernelSurface,
		sandbox.TreeKill:      treeKill,
	}
}

func fsWrite(ev evidence) sandbox.Layer {
	root := ev.mount("/")
	return judge(
		"read-only root; workspace and in-memory scratch only",
		fmt.Sprintf("/ is %s, read-only %v; %s", printable(root.FSType), hasOption(root, "ro"), ev.attempts("write_root", "write_workspace")),
		check{ev.out.HostConfig.ReadonlyRootfs, "root-not-readonly", "the engine does not report a read-only root"},
		check{hasOption(root, "ro"), "root-mounted-writable", "the root is not mounted read-only inside"},
		check{ev.refusedWith("write_root", "EROFS", "EACCES", "EPERM"), "root-written", "a write to the root was not refused inside"},
	)
}

func fsRead(ev evidence) sandbox.Layer {
	var foreign []string
	for _, m := range ev.out.Mounts {
		if m.Destination != workspacePath && m.Destination != scratchPath && m.Destination != "/tmp" {
			foreign = append(foreign, printable(m.Destination))
		}
	}
	return judge(
		"own mount namespace with the image and the workspace",
		fmt.Sprintf("%d mounts by the engine, others: %s", len(ev.out.Mounts), orNone(foreign)),
		check{len(foreign) == 0, "foreign-mount", "the engine mounted " + strings.Join(foreign, ", ")},
		check{len(ev.out.HostConfig.Binds) == 0 && len(ev.out.HostConfig.VolumesFrom) == 0, "foreign-bind", "the engine bound something that brig did not ask for"},
		check{ev.mount("/").FSType != "", "root-unknown", "the runner could not see what its root is"},
	)
}

func netOutbound(ev evidence) sandbox.Layer {
	return judge(
		"own network namespace without an interface",
		fmt.Sprintf("network mode %s; interfaces: %s", printable(string(ev.out.HostConfig.NetworkMode)), orNone(ev.in.Interfaces)),
		check{ev.out.HostConfig.NetworkMode.IsNone(), "network-mode", "the engine reports another network mode than none"},
		check{onlyLoopback(ev.in.Interfaces), "interface-seen", "the runner does not see exactly one loopback interface"},
	)
}

func netLoopback(ev evidence) sandbox.Layer {
	return judge(
		"a loopback of the container's own",
		"interfaces: "+orNone(ev.in.Interfaces),
		check{ev.out.HostConfig.NetworkMode.IsNone(), "network-mode", "the engine reports another network mode than none, so loopback may be shared"},
		check{onlyLoopback(ev.in.Interfaces), "interface-seen", "the runner does not see exactly one loopback interface"},
	)
}

func unixSockets(ev evidence) sandbox.Layer {
	return judge(
		"own mount, network and ipc namespaces; no socket of the host in the workspace's mount",
		fmt.Sprintf("ipc mode %s; interfaces: %s", printable(string(ev.out.HostConfig.IpcMode)), orNone(ev.in.Interfaces)),
		check{ev.out.HostConfig.NetworkMode.IsNone() && onlyLoopback(ev.in.Interfaces), "network-shared", "the network namespace may be shared, and abstract sockets with it"},
		check{ev.out.HostConfig.IpcMode.IsPrivate() || ev.out.HostConfig.IpcMode.IsNone(), "ipc-shared", "the ipc namespace is not the container's own"},
	)
}

func noNewPrivs(ev evidence) sandbox.Layer {
	return judge(
		"no_new_privs",
		"NoNewPrivs="+printable(ev.in.Status["NoNewPrivs"]),
		check{slices.Contains(ev.out.HostConfig.SecurityOpt, "no-new-privileges"), "not-set", "the engine does not report no-new-privileges"},
		check{ev.in.Status["NoNewPrivs"] == "1", "not-applied", "the kernel does not show no_new_privs inside"},
	)
}

func capabilities(ev evidence) sandbox.Layer {
	sets := []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"}
	var seen, left []string
	for _, set := range sets {
		value := ev.in.Status[set]
		seen = append(seen, set+"="+printable(value))
		if value == "" || strings.Trim(value, "0") != "" {
			left = append(left, set)
		}
	}
	return judge(
		"all capabilities dropped; user "+printable(ev.out.Config.User),
		strings.Join(seen, " "),
		check{!ev.out.HostConfig.Privileged && len(ev.out.HostConfig.CapAdd) == 0, "capability-added", "the engine reports added capabilities"},
		check{len(left) == 0, "capability-left", "the kernel shows capabilities inside, in " + strings.Join(left, ", ")},
	)
}

func syscallFilter(ev evidence) sandbox.Layer {
	blocked := []string{"unshare_user", "io_uring_setup", "socket_netlink", "socket_vsock", "keyctl", "mount"}
	var open []string
	for _, name := range blocked {
		if !ev.refusedWith(name, "EPERM", "ENOSYS", "EACCES") {
			open = append(open, name)
		}
	}
	return judge(
		"seccomp, brig's own profile",
		"Seccomp="+printable(ev.in.Status["Seccomp"])+"; "+ev.attempts(blocked...),
		check{slices.ContainsFunc(ev.out.HostConfig.SecurityOpt, func(s string) bool { return strings.HasPrefix(s, "seccomp={") }), "not-set", "the engine does not report brig's profile"},
		check{ev.in.Status["Seccomp"] == "2", "not-applied", "the kernel shows no filter inside"},
		check{len(open) == 0, "call-not-refused", "inside, these were not seen to be refused: " + strings.Join(open, ", ")},
	)
}

func signals(ev evidence) sandbox.Layer {
	return judge(
		"own pid namespace",
		fmt.Sprintf("pid inside %d; own namespace %v", ev.in.PID, ev.out.HostConfig.PidMode.IsPrivate()),
		check{ev.out.HostConfig.PidMode.IsPrivate(), "pid-mode", "the engine reports a shared pid namespace"},
		check{ev.in.PID == 1, "not-first", "the runner is not the first process of its namespace"},
	)
}

func ptrace(ev evidence) sandbox.Layer {
	return judge(
		"own pid namespace, seccomp, runner not dumpable",
		fmt.Sprintf("%s dumpable=%d", ev.attempts("ptrace_traceme"), ev.in.Dumpable),
		check{ev.out.HostConfig.PidMode.IsPrivate(), "pid-mode", "the engine reports a shared pid namespace"},
		check{ev.refusedWith("ptrace_traceme", "EPERM", "ENOSYS"), "ptrace-not-refused", "ptrace was not refused inside"},
		check{ev.in.Dumpable == 0, "runner-dumpable", "user code could look into the runner"},
	)
}

func inheritedFDs(ev evidence) sandbox.Layer {
	return judge(
		"started by the engine with three pipes of its own",
		fmt.Sprintf("tty %v, stdin once %v", ev.out.Config.Tty, ev.out.Config.StdinOnce),
		check{!ev.out.Config.Tty, "terminal", "the engine gave the container a terminal"},
		check{ev.out.Config.OpenStdin && ev.out.Config.StdinOnce, "stdin-stays-open", "the runner's input would outlive brig"},
	)
}

// environmentLayer compares names: an engine may add a proxy setting of its own,
// and that can hold a password.
func environmentLayer(ev evidence) sandbox.Layer {
	known := map[string]bool{"PATH": true, "HOSTNAME": true}
	for _, pair := range ev.want.environment() {
		name, _, _ := strings.Cut(pair, "=")
		known[name] = true
	}
	var names, foreign []string
	for _, pair := range ev.out.Config.Env {
		name, _, _ := strings.Cut(pair, "=")
		names = append(names, printable(name))
		if !known[name] {
			foreign = append(foreign, printable(name))
		}
	}
	return judge(
		"a fixed list of names",
		strings.Join(names, " "),
		check{len(foreign) == 0, "foreign-variable", "the engine added " + strings.Join(foreign, ", ")},
	)
}

func devices(ev evidence) sandbox.Layer {
	host := ev.out.HostConfig
	return judge(
		"the runtime's basic devices only",
		fmt.Sprintf("%d devices, %d device requests, privileged %v", len(host.Devices), len(host.DeviceRequests), host.Privileged),
		check{len(host.Devices) == 0 && len(host.DeviceRequests) == 0 && len(host.DeviceCgroupRules) == 0, "device-added", "the engine reports added devices"},
		check{!host.Privileged, "privileged", "the engine reports a privileged container"},
	)
}

func kernelSurface(ev evidence) sandbox.Layer {
	if strings.Contains(ev.in.Kernel, "gVisor") {
		return sandbox.Layer{State: sandbox.Enforced, Mechanism: "gVisor's own kernel", Evidence: printable(ev.in.Kernel)}
	}
	return sandbox.Layer{
		State: sandbox.Partial, Mechanism: "shared kernel behind the system call filter", Code: "shared-kernel",
		Reason:   "the container shares the kernel of the engine's machine",
		Remedy:   "install the gVisor runtime on the engine and set docker.runtime to runsc",
		Evidence: printable(ev.in.Kernel),
	}
}

func treeKill(ev evidence) sandbox.Layer {
	return judge(
		"own pid namespace; ends with its first process; removed by the engine",
		fmt.Sprintf("pid inside %d, auto-remove %v, restart policy %s", ev.in.PID, ev.out.HostConfig.AutoRemove, printable(string(ev.out.HostConfig.RestartPolicy.Name))),
		check{ev.in.PID == 1 && ev.out.HostConfig.PidMode.IsPrivate(), "not-first", "the runner is not the first process of a namespace of its own"},
		check{ev.out.HostConfig.AutoRemove, "not-removed", "the engine would keep the container"},
		check{ev.out.HostConfig.RestartPolicy.IsNone(), "restarts", "the engine would start the container again"},
		check{ev.out.Config.StdinOnce, "stdin-stays-open", "the runner would outlive brig"},
	)
}

func onlyLoopback(interfaces []string) bool {
	return len(interfaces) == 1 && interfaces[0] == "lo"
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return printable(strings.Join(names, " "))
}
