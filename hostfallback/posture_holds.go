package hostfallback

import (
	"fmt"
	"slices"
	"strings"

	"brig/hostfallback/confine"
	"brig/orchestrator/sandbox"
)

// hold is one mechanism that was reported as applied, and what the runner would
// have seen if it were not.
type hold struct {
	name     string   // as pages show it
	attempts []string // of the runner: none of them may have succeeded
	spaces   []string // namespaces: they must be others than brig's
	denied   string   // what else the runner saw that cannot be; empty: nothing
}

// by makes a row's mechanism of what holds it. What was seen from inside wins
// over everything that was reported, whatever state the row has.
func (e evidence) by(row sandbox.Layer, holds ...hold) sandbox.Layer {
	var names, seen []string
	denied := ""
	for _, h := range holds {
		if h.name != "" {
			names = append(names, h.name)
		}
		deny := func(what, evidence string) {
			if denied == "" {
				denied, row.Evidence = what, evidence
			}
		}
		for _, a := range h.attempts {
			outcome := e.saw(a)
			if outcome == "ok" {
				deny(strings.ReplaceAll(a, "_", " ")+" succeeded from inside", a+"=ok")
			}
			if word := a + "=" + outcome; outcome != "" && !slices.Contains(seen, word) {
				seen = append(seen, word)
			}
		}
		for _, kind := range h.spaces {
			if inside := e.inSpace(kind); inside != "" && inside == e.outside[kind] {
				deny("the runner is in the same "+kind+" namespace as brig", kind+"="+inside)
			}
		}
		if h.denied != "" {
			deny(h.denied, "")
		}
	}
	row.Mechanism = strings.Join(names, ", ")
	if denied != "" {
		r := why(codeProbeDisagree)
		row.State, row.Code, row.Remedy = sandbox.Off, r.code, r.remedy
		row.Reason = "it was applied, but " + denied
		return row
	}
	if len(seen) > 0 {
		row.Evidence = strings.Join(seen, " ")
	}
	return row
}

// inSpace is the name of a namespace that the runner is in.
func (e evidence) inSpace(kind string) string {
	if e.observed == nil {
		return ""
	}
	return e.observed.Namespaces[kind]
}

// landlockName is the mechanism as pages show it.
func (e evidence) landlockName() string {
	return fmt.Sprintf("landlock abi %d", e.report.Landlock.Used)
}

// sealed says that what was mounted cannot be changed from inside.
func (e evidence) sealed() bool { return e.incapable() || e.report.Seccomp.Applied }

// The parts of the namespace sandbox, as the helper reported them. None counts
// without the user namespace that they need.
func (e evidence) root() bool { return e.report.Namespace.Applied && e.report.Namespaces.Root.Applied }

func (e evidence) processes() bool {
	return e.report.Namespace.Applied && e.report.Namespaces.Process.Applied
}

func (e evidence) ownNetwork() bool {
	return e.report.Namespace.Applied && e.report.Namespaces.Network.Applied
}

// part is why a part of the namespace sandbox is not there: its own reason, or
// that of all of it.
func (e evidence) part(l confine.Layer) confine.Layer {
	if !e.report.Namespace.Applied {
		return e.report.Namespace
	}
	return l
}

func (e evidence) byRoot(attempts ...string) hold {
	return hold{name: "private root", attempts: append([]string{"stat_outside"}, attempts...), spaces: []string{"mnt"}}
}

func (e evidence) byProcesses() hold {
	h := hold{name: "process namespace", attempts: []string{"kill_parent"}, spaces: []string{"pid"}}
	if ids := strings.Fields(e.status("NSpid")); len(ids) > 1 {
		h.denied = "/proc shows the processes of another namespace"
	}
	return h
}

func (e evidence) byNetwork() hold {
	return hold{name: "network namespace", spaces: []string{"net"}}
}

func (e evidence) byUser() hold { return hold{name: "user namespace", spaces: []string{"user"}} }

// bySocketFilter is the refusal of families; those of the internet are let through
// where the plan wants them.
func (e evidence) bySocketFilter() hold {
	if e.report.Seccomp.Filter.Inet {
		return hold{name: "seccomp on other families", attempts: []string{"socket_vsock"}}
	}
	return hold{name: "seccomp on socket", attempts: []string{"socket_inet", "socket_netlink", "socket_vsock"}}
}

// byCgroup is the control group with what of it is meant.
func (e evidence) byCgroup(what string) hold {
	h := hold{name: "cgroup v2 " + what}
	// The name of the instance's own group, which both must say.
	_, own, _ := cutLast(e.report.Cgroup.Path, "/")
	if e.observed == nil || own == "" {
		return h
	}
	// In a namespace of control groups of its own it is the root of all.
	if seen := e.observed.CgroupPath; seen != "" && seen != "/" && !slices.Contains(strings.Split(seen, "/"), own) {
		h.denied = "the runner is in another control group"
	}
	return h
}

// cutLast cuts s at the last separator.
func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return "", s, false
}
