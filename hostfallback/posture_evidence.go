package hostfallback

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"brig/hostfallback/confine"
	"brig/orchestrator/sandbox"
)

// reported is what was read back about a layer: by the helper right before it
// became the runner, by the supervisor, and by the runner from inside. Nothing
// in it was only asked for. What the runner tried stands before it in the row.
func (e evidence) reported(id sandbox.LayerID) string {
	if e.report.Seatbelt != nil {
		return e.seatbeltReported(id)
	}
	r, w := e.report, e.watch
	switch id {
	case sandbox.FSWrite:
		return words(e.landlockRules(), e.mounts("/"), e.space("mnt"), e.parts("root"))
	case sandbox.FSRead, sandbox.Devices:
		return words(e.landlockRules(), e.mounts("/"), e.parts("root"))
	case sandbox.NetOutbound:
		return words(e.filter(), e.landlockHandled(), e.parts("network"), e.space("net"))
	case sandbox.NetLoopback:
		return words(e.filter(), e.landlockHandled(), e.parts("network"), e.interfaces())
	case sandbox.UnixSockets:
		return words(e.landlockHandled(), e.filter(), e.parts("root", "network"), e.space("ipc"))
	case sandbox.Signals, sandbox.Ptrace:
		return words(e.landlockHandled(), e.filter(), e.parts("process"), e.processesSeen())
	case sandbox.Seclusion:
		return words(e.parts("root", "process", "network"), e.space("mnt"), e.processesSeen(), e.space("net"))
	case sandbox.ProcessLimit:
		return words(e.rlimits("nproc", "nofile"), fmt.Sprintf("watched=%d", w.Processes), e.cgroup("pids.max", int64(r.Cgroup.Processes)))
	case sandbox.MemoryLimit:
		return words(e.rlimits("data", "core"), fmt.Sprintf("watched=%d", w.Memory), e.cgroup("memory.max", r.Cgroup.Memory))
	case sandbox.CPULimit:
		return words("sched_getaffinity="+numbers(r.Processors), e.cgroup("cpu.max in thousandths", int64(r.Cgroup.MilliCPU)))
	case sandbox.DiskLimit:
		return words(e.rlimits("fsize"), fmt.Sprintf("watched=%d", w.Disk))
	case sandbox.OutputLimit:
		if e.observed == nil {
			return "" // there was no runner to ask
		}
		b := e.observed.Bounds
		return fmt.Sprintf("the runner keeps=%d logs=%d displays=%d", b.Kept, b.Logged, b.Display)
	case sandbox.WallClock:
		return subreaper(w)
	case sandbox.TreeKill:
		return words(subreaper(w), e.parts("process"), e.processesSeen(), e.cgroup("cgroup.kill", int64(bit(r.Cgroup.Kill))))
	case sandbox.NoNewPrivs:
		return fmt.Sprintf("PR_GET_NO_NEW_PRIVS=%d", bit(r.NoNewPrivs))
	case sandbox.Capabilities:
		return "capget=" + r.CapEff
	case sandbox.SyscallFilter, sandbox.KernelSurface:
		return e.filter()
	case sandbox.InheritedFDs:
		return fmt.Sprintf("open at exec: %s; closed by it: %d", numbers(r.Kept), r.Closed)
	case sandbox.Environment:
		return fmt.Sprintf("%d variables: %s", len(r.Variables), strings.Join(r.Variables, " "))
	}
	panic("BUG: no evidence for layer " + string(id))
}

// landlockRules is what the ruleset refuses, and what its rules let through.
func (e evidence) landlockRules() string {
	l := e.report.Landlock
	if !l.Applied {
		return refused("landlock", l.Layer)
	}
	return fmt.Sprintf("landlock handles fs=%#x; rules: write %d, execute %d, read %d, devices %d, shm %d",
		l.Handled.FS, l.ByKind.Write, l.ByKind.Execute, l.ByKind.Read, l.ByKind.Devices, l.ByKind.Shm)
}

// landlockHandled is what of it is no matter of files.
func (e evidence) landlockHandled() string {
	l := e.report.Landlock
	if !l.Applied {
		return refused("landlock", l.Layer)
	}
	return fmt.Sprintf("landlock handles net=%#x scope=%#x", l.Handled.Net, l.Handled.Scoped)
}

func (e evidence) filter() string {
	s := e.report.Seccomp
	if !s.Applied {
		return refused("seccomp", s.Layer)
	}
	return fmt.Sprintf("seccomp filter %s", s.Hash)
}

func refused(what string, l confine.Layer) string {
	if l.Errno != "" {
		return what + "=" + l.Errno
	}
	return what + "=" + l.Code
}

func subreaper(w confine.Watch) string {
	return fmt.Sprintf("PR_GET_CHILD_SUBREAPER=%d", bit(w.Subreaper))
}

// parts say which parts of the namespace sandbox there are, or why not.
func (e evidence) parts(names ...string) string {
	r := e.report
	if !r.Namespace.Applied {
		return refused("namespaces", r.Namespace)
	}
	var out []string
	for _, name := range names {
		what, part := name+" namespace", r.Namespaces.Process
		switch name {
		case "root":
			what, part = "private root", r.Namespaces.Root
		case "network":
			part = r.Namespaces.Network
		}
		if part.Applied {
			out = append(out, what+" made")
		} else {
			out = append(out, refused(what, part))
		}
	}
	return words(out...)
}

// space is the name of a namespace that the runner is in.
func (e evidence) space(kind string) string {
	name := e.inSpace(kind)
	if name == "" {
		return ""
	}
	if name == e.outside[kind] {
		return name + ", which is brig's"
	}
	return name
}

// processesSeen is who the runner is by its own count.
func (e evidence) processesSeen() string {
	if e.observed == nil {
		return ""
	}
	return words(e.space("pid"), fmt.Sprintf("the runner is process %d", e.observed.PID))
}

// cgroup is what was read back of the control group.
func (e evidence) cgroup(file string, value int64) string {
	c := e.report.Cgroup
	switch {
	case value > 0:
		return fmt.Sprintf("%s=%d in %s", file, value, c.Path)
	case c.Applied:
		return file + " is not set in " + c.Path
	case c.Code == "":
		return ""
	}
	return refused("cgroup", c.Layer)
}

// mounts are the options of the mount that path lies on, seen from inside.
func (e evidence) mounts(path string) string {
	if e.observed == nil {
		return ""
	}
	for _, m := range e.observed.Mounts {
		if first, _, _ := strings.Cut(m.Options, ","); m.Path == path {
			return path + " is mounted " + first
		}
	}
	return ""
}

func (e evidence) interfaces() string {
	if e.observed == nil {
		return ""
	}
	return fmt.Sprintf("interfaces: %s", strings.Join(e.observed.Interfaces, " "))
}

// rlimits are limits as the helper read them back, and in brackets as the runner
// sees them where that is another number.
func (e evidence) rlimits(names ...string) string {
	var out []string
	for _, name := range names {
		text := "unlimited"
		if n, ok := e.report.Limits[name]; ok {
			text = strconv.FormatUint(n, 10)
		}
		if seen, ok := e.inside(name); ok && seen != text {
			text += " (inside " + seen + ")"
		}
		out = append(out, name+"="+text)
	}
	return strings.Join(out, " ")
}

// inside is a hard limit as the runner reads it.
func (e evidence) inside(name string) (string, bool) {
	if e.observed == nil {
		return "", false
	}
	l, ok := e.observed.Rlimits[name]
	if !ok {
		return "", false
	}
	if l.Hard < 0 {
		return "unlimited", true
	}
	return strconv.FormatInt(l.Hard, 10), true
}

// looser names a limit that is higher for the runner than the helper reported.
func (e evidence) looser(names ...string) string {
	if e.observed == nil {
		return ""
	}
	for _, name := range names {
		l, seen := e.observed.Rlimits[name]
		if set, ok := e.report.Limits[name]; ok && seen && (l.Hard < 0 || uint64(l.Hard) > set) {
			return name
		}
	}
	return ""
}

// words joins what is not empty.
func words(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "; ")
}

func numbers(list []int) string {
	out := make([]string, 0, len(list))
	for _, n := range list {
		out = append(out, strconv.Itoa(n))
	}
	return strings.Join(out, ",")
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
