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
	r, w := e.report, e.watch
	switch id {
	case sandbox.FSWrite:
		return words(e.landlockRules(), e.mounts("/"), namespaceWord(r))
	case sandbox.FSRead, sandbox.Devices:
		return e.landlockRules()
	case sandbox.NetOutbound:
		return words(e.filter(), e.landlockHandled())
	case sandbox.NetLoopback:
		return words(e.filter(), e.landlockHandled(), e.interfaces())
	case sandbox.UnixSockets, sandbox.Signals, sandbox.Ptrace:
		return words(e.landlockHandled(), e.filter())
	case sandbox.Seclusion:
		return e.seclusionParts()
	case sandbox.ProcessLimit:
		return words(e.rlimits("nproc", "nofile"), fmt.Sprintf("watched=%d", w.Processes))
	case sandbox.MemoryLimit:
		return words(e.rlimits("data", "core"), fmt.Sprintf("watched=%d", w.Memory))
	case sandbox.CPULimit:
		return "sched_getaffinity=" + numbers(r.Processors)
	case sandbox.DiskLimit:
		return words(e.rlimits("fsize"), fmt.Sprintf("watched=%d", w.Disk))
	case sandbox.OutputLimit:
		if e.observed == nil {
			return "" // there was no runner to ask
		}
		b := e.observed.Bounds
		return fmt.Sprintf("the runner keeps=%d logs=%d displays=%d", b.Kept, b.Logged, b.Display)
	case sandbox.WallClock, sandbox.TreeKill:
		return fmt.Sprintf("PR_GET_CHILD_SUBREAPER=%d", bit(w.Subreaper))
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

func namespaceWord(r confine.Report) string {
	if r.Namespace.Applied {
		return ""
	}
	return refused("namespaces", r.Namespace)
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
