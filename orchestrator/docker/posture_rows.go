package docker

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"

	"brig/images"
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
		sandbox.Seclusion:     seclusion,
		sandbox.InheritedFDs:  inheritedFDs,
		sandbox.Environment:   environmentLayer,
		sandbox.Devices:       devices,
		sandbox.KernelSurface: kernelSurface,
		sandbox.TreeKill:      treeKill,
	}
}

func fsWrite(ev evidence) sandbox.Layer {
	root, settings := ev.mount("/"), ev.mount("/proc/sys")
	loose, foreign := ev.looseScratch(), ev.foreignMounts(func(m container.MountPoint) bool { return m.RW })
	return judge(
		"read-only root; workspace and in-memory scratch only",
		fmt.Sprintf("/ is %s, read-only %v; /proc/sys read-only %v; %s", printable(root.FSType), hasOption(root, "ro"), hasOption(settings, "ro"), ev.attempts("write_root", "write_workspace")),
		vital(hasOption(root, "ro"), "root-mounted-writable", "the root is not mounted read-only inside"),
		vital(ev.refusedWith("write_root", "EROFS", "EACCES", "EPERM"), "root-written", "a write to the root was not refused inside"),
		vital(len(foreign) == 0, "foreign-mount-writable", "the engine mounted for writing "+strings.Join(foreign, ", ")),
		vital(!ev.out.HostConfig.PidMode.IsHost(), "pid-of-host", "files of the engine's machine can be reached through its processes in /proc"),
		need(!ev.out.HostConfig.IpcMode.IsHost(), "ipc-of-host", "shared memory of the engine's machine is in /dev/shm"),
		need(ev.out.HostConfig.ReadonlyRootfs, "root-not-readonly", "the engine does not report a read-only root"),
		need(len(loose) == 0, "scratch-loose", "in-memory file systems lack noexec, nosuid or nodev: "+strings.Join(loose, ", ")),
		// gVisor's settings are the guest's own.
		need(hasOption(settings, "ro") || ev.kernel() == gvisorKernel, "settings-writable", "the kernel's settings are not mounted read-only inside"),
	)
}

// looseScratch lists the in-memory file systems that brig asked for and that can
// hold a program, a set-id file or a device.
func (ev evidence) looseScratch() []string {
	var loose []string
	for _, path := range ev.scratchPaths() {
		m := ev.mount(path)
		if !hasOption(m, "noexec") || !hasOption(m, "nosuid") || !hasOption(m, "nodev") && ev.kernel() != gvisorKernel { // there are no devices in gVisor
			loose = append(loose, path)
		}
	}
	return loose
}

// foreignMounts lists what else the engine mounted of such a kind.
func (ev evidence) foreignMounts(such func(container.MountPoint) bool) []string {
	var foreign []string
	for _, m := range ev.out.Mounts {
		if m.Destination != workspacePath && m.Destination != scratchPath && m.Destination != "/tmp" && such(m) {
			foreign = append(foreign, printable(m.Destination))
		}
	}
	return foreign
}

// scratchPaths are the in-memory file systems of a container.
func (ev evidence) scratchPaths() []string {
	places := []string{scratchPath, "/tmp", "/dev/shm"}
	if ev.want.workspace.directory == "" {
		places = append(places, workspacePath)
	}
	return places
}

func fsRead(ev evidence) sandbox.Layer {
	foreign := ev.foreignMounts(func(container.MountPoint) bool { return true })
	return judge(
		"own mount namespace with the image and the workspace",
		fmt.Sprintf("%d mounts by the engine, others: %s; %s", len(ev.out.Mounts), orNone(foreign), ev.attempts("read_masked")),
		vital(!ev.out.HostConfig.PidMode.IsHost(), "pid-of-host", "files of the engine's machine can be reached through its processes in /proc"),
		need(!ev.out.HostConfig.IpcMode.IsHost(), "ipc-of-host", "shared memory of the engine's machine is in /dev/shm"),
		vital(len(foreign) == 0, "foreign-mount", "the engine mounted "+strings.Join(foreign, ", ")),
		need(len(ev.out.HostConfig.Binds) == 0 && len(ev.out.HostConfig.VolumesFrom) == 0, "foreign-bind", "the engine bound something that brig did not ask for"),
		vital(ev.attempt("read_masked") != "ok", "masked-path-read", "something of the engine's machine that containers mask could be read inside"),
		need(ev.attempt("read_masked") == "ENODATA", "masked-path-unclear", "whether what containers mask is masked was not seen inside"),
		need(ev.mount("/").FSType != "", "root-unknown", "the runner could not see what its root is"),
	)
}

func netOutbound(ev evidence) sandbox.Layer {
	return judge(
		"own network namespace without an interface",
		fmt.Sprintf("network mode %s; interfaces: %s", printable(string(ev.out.HostConfig.NetworkMode)), orNone(ev.in.Interfaces)),
		vital(ev.out.HostConfig.NetworkMode.IsNone(), "network-mode", "the engine reports another network mode than none"),
		need(onlyLoopback(ev.in.Interfaces), "interface-seen", "the runner does not see exactly one loopback interface"),
	)
}

func netLoopback(ev evidence) sandbox.Layer {
	return judge(
		"a loopback of the container's own",
		"interfaces: "+orNone(ev.in.Interfaces),
		vital(ev.out.HostConfig.NetworkMode.IsNone(), "network-mode", "the engine reports another network mode than none, so loopback may be shared"),
		need(onlyLoopback(ev.in.Interfaces), "interface-seen", "the runner does not see exactly one loopback interface"),
	)
}

func unixSockets(ev evidence) sandbox.Layer {
	foreign := ev.foreignMounts(func(container.MountPoint) bool { return true })
	return judge(
		"own mount, network and ipc namespaces; no socket of the host in the workspace's mount",
		fmt.Sprintf("ipc mode %s; interfaces: %s", printable(string(ev.out.HostConfig.IpcMode)), orNone(ev.in.Interfaces)),
		vital(!ev.out.HostConfig.NetworkMode.IsHost(), "network-of-host", "the engine reports the network of its machine, whose abstract sockets can be reached"),
		vital(!ev.out.HostConfig.IpcMode.IsHost(), "ipc-of-host", "the engine reports the ipc namespace of its machine"),
		need(len(foreign) == 0, "foreign-mount", "sockets can be connected to in what the engine mounted: "+strings.Join(foreign, ", ")),
		need(ev.out.HostConfig.NetworkMode.IsNone() && onlyLoopback(ev.in.Interfaces), "network-shared", "the network namespace may be shared, and abstract sockets with it"),
		need(ev.out.HostConfig.IpcMode.IsPrivate() || ev.out.HostConfig.IpcMode.IsNone(), "ipc-shared", "the ipc namespace is not the container's own"),
	)
}

func noNewPrivs(ev evidence) sandbox.Layer {
	return judge(
		"no_new_privs",
		"NoNewPrivs="+printable(ev.in.Status["NoNewPrivs"]),
		vital(ev.in.Status["NoNewPrivs"] == "1", "not-applied", "the kernel does not show no_new_privs inside"),
		need(slices.ContainsFunc(ev.out.HostConfig.SecurityOpt, isNoNewPrivileges), "not-set", "the engine does not report no-new-privileges"),
	)
}

// isNoNewPrivileges knows both spellings: some engines add a value to it.
func isNoNewPrivileges(option string) bool {
	return option == "no-new-privileges" || option == "no-new-privileges:true" || option == "no-new-privileges=true"
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
	mechanism, users := "all capabilities dropped; user "+printable(ev.out.Config.User), ev.users()
	if users.state == sandbox.Enforced {
		mechanism += ", " + users.what
	}
	return judge(
		mechanism,
		fmt.Sprintf("%s; uid %d, uid_map %s", strings.Join(seen, " "), ev.in.UID, printable(ev.in.UIDMap)),
		// Of who is not root the kernel shows none that are held, so what dropping them does is seen in the bounds.
		vital(!slices.Contains(left, "CapBnd"), "capabilities-left", "the kernel shows that capabilities can be had inside, or nothing about them"),
		need(len(left) == 0, "capability-left", "the kernel shows capabilities inside, in "+strings.Join(left, ", ")),
		need(!ev.out.HostConfig.Privileged && len(ev.out.HostConfig.CapAdd) == 0, "capability-added", "the engine reports added capabilities"),
		vital(fmt.Sprint(ev.in.UID, ":", ev.in.GID) == fmt.Sprint(ev.want.user.uid, ":", ev.want.user.gid), "other-user", "code would run as another user than the one asked for"),
		need(users.code == "", users.code, users.what),
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
	filtered := vital(ev.in.Status["Seccomp"] == "2", "not-applied", "the kernel shows no filter inside")
	remedy := ""
	switch {
	case filtered.holds:
	case ev.kernel() == gvisorKernel:
		filtered.code, filtered.what = "guest-kernel", "gVisor does not apply brig's filter: its own kernel answers the calls, and filters what it asks of the machine's"
		remedy = "add --oci-seccomp to the arguments of the runtime " + printable(ev.runtimeName()) + " in the engine's daemon.json"
	case ev.kernel() == kataKernel:
		filtered.code, filtered.what = "guest-kernel", "Kata does not apply brig's filter inside the virtual machine"
		remedy = "set disable_guest_seccomp = false in Kata's configuration"
	}
	layer := judge(
		"seccomp, brig's own profile",
		"Seccomp="+printable(ev.in.Status["Seccomp"])+"; "+ev.attempts(blocked...),
		filtered,
		need(len(open) == 0, "call-not-refused", "inside, these were not seen to be refused: "+strings.Join(open, ", ")),
		need(slices.ContainsFunc(ev.out.HostConfig.SecurityOpt, ev.engine.isProfile), "not-set", "the engine does not report brig's profile"),
	)
	if layer.State != sandbox.Enforced {
		layer.Remedy = remedy
	}
	return layer
}

func signals(ev evidence) sandbox.Layer {
	return judge(
		"own pid namespace",
		fmt.Sprintf("pid inside %d; own namespace %v", ev.in.PID, ev.out.HostConfig.PidMode.IsPrivate()),
		need(ev.out.HostConfig.PidMode.IsPrivate(), "pid-mode", "the engine reports a shared pid namespace"),
		need(ev.in.PID == 1, "not-first", "the runner is not the first process of its namespace"),
	)
}

// ptrace is about processes that are not the code's own. A guest's kernel without
// brig's filter lets code trace its own children, which leads nowhere.
func ptrace(ev evidence) sandbox.Layer {
	refused := ev.refusedWith("ptrace_traceme", "EPERM", "ENOSYS")
	mechanism := "own pid namespace, seccomp, runner not dumpable"
	if ev.kernel().own() && !refused {
		mechanism = "own pid namespace of a kernel of its own, runner not dumpable"
	}
	return judge(
		mechanism,
		fmt.Sprintf("%s dumpable=%d", ev.attempts("ptrace_traceme"), ev.in.Dumpable),
		need(ev.out.HostConfig.PidMode.IsPrivate(), "pid-mode", "the engine reports a shared pid namespace"),
		need(refused || ev.kernel().own(), "ptrace-not-refused", "ptrace was not refused inside"),
		need(ev.in.Dumpable == 0, "runner-dumpable", "user code could look into the runner"),
	)
}

// seclusion is that nothing of the engine's machine is there to be seen: none of its
// files, processes and sockets.
func seclusion(ev evidence) sandbox.Layer {
	foreign := ev.foreignMounts(func(container.MountPoint) bool { return true })
	return judge(
		"own mount, pid and network namespaces",
		fmt.Sprintf("/ is %s; pid inside %d; interfaces: %s", printable(ev.mount("/").FSType), ev.in.PID, orNone(ev.in.Interfaces)),
		vital(!ev.out.HostConfig.PidMode.IsHost(), "visible-processes", "the processes of the engine's machine can be seen, and its files through them"),
		need(len(foreign) == 0, "visible-files", "the engine mounted "+strings.Join(foreign, ", ")),
		need(ev.out.HostConfig.PidMode.IsPrivate() && ev.in.PID == 1, "visible-processes", "processes of others can be seen in the pid namespace"),
		need(ev.out.HostConfig.NetworkMode.IsNone() && onlyLoopback(ev.in.Interfaces), "visible-network", "what listens in the network namespace of others can be seen"),
		need(ev.mount("/").FSType != "", "root-unknown", "the runner could not see what its root is"),
	)
}

func inheritedFDs(ev evidence) sandbox.Layer {
	return judge(
		"started by the engine with three pipes of its own",
		fmt.Sprintf("tty %v, stdin once %v", ev.out.Config.Tty, ev.out.Config.StdinOnce),
		need(!ev.out.Config.Tty, "terminal", "the engine gave the container a terminal"),
		need(ev.out.Config.OpenStdin && ev.endsByItself(), "stdin-stays-open", "the runner's input would outlive brig"),
	)
}

// environmentLayer compares names, those that the engine says and those that the
// runner has: an engine may add a proxy setting of its own, and that can hold a
// password. A variable that is set to nothing carries nothing: that is what became of
// those of a user's own image.
func environmentLayer(ev evidence) sandbox.Layer {
	known := map[string]bool{"PATH": true, "HOSTNAME": true, "TERM": true, "container": true} // Podman sets the last two
	for _, pair := range ev.want.environment() {
		name, _, _ := strings.Cut(pair, "=")
		known[name] = true
	}
	if ev.want.image.Choice.Reference != "" {
		for _, name := range images.KeptVariables() {
			known[name] = true
		}
	}
	foreign := map[string]bool{}
	for _, pair := range ev.out.Config.Env {
		name, value, _ := strings.Cut(pair, "=")
		if value == "" {
			known[name] = true
		}
		if !known[name] {
			foreign[printable(name)] = true
		}
	}
	var names []string
	for _, name := range ev.in.Environ {
		names = append(names, printable(name))
		if !known[name] && !fromLocale(name) {
			foreign[printable(name)] = true
		}
	}
	return judge(
		"a fixed list of names",
		orNone(names),
		need(len(ev.in.Environ) > 0, "not-read", "the runner did not say which variables it was started with"),
		vital(len(foreign) == 0, "foreign-variable", "the engine added "+strings.Join(slices.Sorted(maps.Keys(foreign)), ", ")),
	)
}

// fromLocale knows what Python sets for itself where the locale is plain C.
func fromLocale(name string) bool { return name == "LC_CTYPE" }

// devices compares the device files inside with those that every runtime makes.
// gVisor has one more, of the guest's kernel.
func devices(ev evidence) sandbox.Layer {
	host := ev.out.HostConfig
	mounted := ev.foreignMounts(func(m container.MountPoint) bool {
		return m.Destination == "/dev" || strings.HasPrefix(m.Destination, "/dev/")
	})
	foreign := slices.DeleteFunc(slices.Clone(ev.in.Devices), func(name string) bool {
		return slices.Contains([]string{"console", "full", "null", "ptmx", "random", "tty", "urandom", "zero"}, name) ||
			name == "fuse" && ev.kernel() == gvisorKernel
	})
	return judge(
		"the runtime's basic devices only",
		fmt.Sprintf("/dev has %s; %d devices, %d device requests, privileged %v", orNone(ev.in.Devices), len(host.Devices), len(host.DeviceRequests), host.Privileged),
		vital(len(mounted) == 0, "foreign-device-mount", "the engine mounted devices of its machine: "+strings.Join(mounted, ", ")),
		need(len(ev.in.Devices) > 0, "not-read", "the runner could not list the devices inside"),
		vital(len(foreign) == 0, "foreign-device", "inside there are also the devices "+orNone(foreign)),
		vital(len(host.Devices) == 0 && len(host.DeviceRequests) == 0 && len(host.DeviceCgroupRules) == 0, "device-added", "the engine reports added devices"),
		need(!host.Privileged, "privileged", "the engine reports a privileged container"),
	)
}

// kernelSurface is enforced where code reaches another kernel than the machine's,
// as far as both sides say so. A shared one is partial, and the module that
// confines the container is part of how far.
func kernelSurface(ev evidence) sandbox.Layer {
	switch {
	case ev.kernel() == gvisorKernel:
		return judge(
			"gVisor's own kernel, runtime "+printable(ev.runtimeName()),
			fmt.Sprintf("%s; runtime %s", printable(ev.in.Kernel), printable(ev.runtimeName())),
			vital(strings.Contains(strings.ToLower(ev.in.Kernel), "gvisor"), "runtime-not-seen", "the engine names a gVisor runtime, and the kernel inside is another"),
			need(ev.runtimeKernel() == gvisorKernel, "runtime-unknown", "the kernel inside calls itself gVisor, and the engine's runtime is none that brig knows as such"),
		)
	case ev.kernel() == kataKernel:
		release := release(ev.in.Kernel)
		return judge(
			"a virtual machine's own kernel (Kata), runtime "+printable(ev.runtimeName()),
			fmt.Sprintf("kernel %s inside, %s on the engine's machine", printable(release), printable(ev.engine.info.KernelVersion)),
			vital(release != "" && release != ev.engine.info.KernelVersion, "runtime-not-seen", "the engine names a Kata runtime, and the kernel inside is the machine's own"),
		)
	}
	layer := sandbox.Layer{
		State: sandbox.Partial, Mechanism: "shared kernel behind the system call filter, runtime " + printable(ev.runtimeName()), Code: "shared-kernel",
		Reason:   "the container shares the kernel of the engine's machine",
		Remedy:   strongerRuntime,
		Evidence: printable(ev.in.Kernel),
	}
	switch module := ev.module(); {
	case module.state == sandbox.Enforced:
		layer.Mechanism += " and the " + module.what
	case module.code != "":
		layer.Code, layer.Reason = module.code, layer.Reason+", and "+module.what
	}
	return layer
}

// strongerRuntime is the remedy for a shared kernel.
const strongerRuntime = "install the gVisor runtime on the engine and set docker.runtime to runsc"

// release finds the kernel's release in the text of /proc/version.
func release(version string) string {
	if fields := strings.Fields(version); len(fields) > 2 {
		return fields[2]
	}
	return ""
}

func treeKill(ev evidence) sandbox.Layer {
	return judge(
		"own pid namespace; ends with its first process; removed by "+ev.remover(),
		fmt.Sprintf("pid inside %d, auto-remove %v, restart policy %s", ev.in.PID, ev.out.HostConfig.AutoRemove, printable(string(ev.out.HostConfig.RestartPolicy.Name))),
		need(ev.in.PID == 1 && ev.out.HostConfig.PidMode.IsPrivate(), "not-first", "the runner is not the first process of a namespace of its own"),
		need(ev.out.HostConfig.AutoRemove == (ev.want.lease == 0), "not-removed", "the engine would keep the container, or remove one that is to be taken up again"),
		need(ev.out.HostConfig.RestartPolicy.IsNone(), "restarts", "the engine would start the container again"),
		need(ev.endsByItself(), "stdin-stays-open", "the runner would outlive brig"),
	)
}

// remover is who removes the container when it has ended.
func (ev evidence) remover() string {
	if ev.want.lease > 0 {
		return "brig"
	}
	return "the engine"
}

// endsByItself: the runner's input ends with brig's stream, or the runner was given a lease.
func (ev evidence) endsByItself() bool { return ev.out.Config.StdinOnce || ev.want.lease > 0 }

func onlyLoopback(interfaces []string) bool {
	return len(interfaces) == 1 && interfaces[0] == "lo"
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return printable(strings.Join(names, " "))
}
