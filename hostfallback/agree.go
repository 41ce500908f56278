package hostfallback

import (
	"fmt"
	"runtime"
	"slices"

	"brig/hostfallback/confine"
)

// agrees checks a report against the plan that it answers. A helper that did
// something else than it was told is a defect, whichever mode is set.
func agrees(plan confine.Plan, r confine.Report) error { return agreesOn(runtime.GOARCH, plan, r) }

func agreesOn(goarch string, plan confine.Plan, r confine.Report) error {
	if r.Windows != nil {
		return agreesOnWindows(plan, *r.Windows)
	}
	wrong := func(what string) error {
		return fmt.Errorf("confine the runner: the helper's report does not fit its plan: %s", what)
	}
	if r.Seatbelt != nil {
		return seatbeltAgrees(plan, r)
	}
	if !r.NoNewPrivs {
		return wrong("no_new_privs")
	}
	if off := plan.Mode == confine.ModeOff; off && (r.Landlock.Applied || r.Seccomp.Applied || r.Namespace.Applied) {
		return wrong("layers beyond the plan")
	}
	for name, want := range map[string]uint64{
		"core": 0, "data": uint64(plan.Limits.Memory), "nofile": uint64(plan.Limits.OpenFiles), "fsize": uint64(plan.Limits.FileSize),
	} {
		if got, set := r.Limits[name]; !set || got > want {
			return wrong("limit " + name)
		}
	}
	if !slices.Equal(r.Kept, []int{0, 1, 2}) {
		return wrong(fmt.Sprintf("descriptors %v", r.Kept))
	}
	if len(r.Variables) != len(plan.Env) {
		return wrong("environment")
	}
	if part := untold(plan, r); part != "" {
		return wrong(part)
	}
	if s := r.Seccomp; s.Applied {
		if want, ok := confine.FilterHash(goarch, s.Filter); !ok || s.Hash != want {
			return wrong("filter")
		}
		inet := plan.Network == confine.NetworkAllow || plan.Network == confine.NetworkLoopback && r.Namespaces.Loopback
		if s.Filter.Inet != inet || s.Filter.Unix != confine.UnixConfined(r) {
			return wrong("filter variant")
		}
		if plan.Mode == confine.ModeRequire && s.Filter.Metadata && !r.Namespace.Applied {
			return wrong("metadata calls")
		}
	}
	return nil
}

// untold names a part that is neither there nor missing for a reason, or that is
// there although it was not to be. Nothing is left out in silence.
func untold(plan confine.Plan, r confine.Report) string {
	n, wanted := r.Namespaces, plan.Mode != confine.ModeOff
	told := func(l confine.Layer) bool {
		if l.Applied {
			return l.Code == "" && l.Errno == ""
		}
		return l.Code != "" && (l.Code == confine.CodeOff) != wanted
	}
	switch {
	case !told(r.Landlock.Layer):
		return "landlock"
	case !told(r.Seccomp.Layer):
		return "seccomp"
	case !told(r.Namespace) || wanted && plan.Namespace && r.Namespace.Code == confine.CodeNotAsked:
		return "namespaces"
	}
	if c := r.Cgroup; c.Applied && (c.Path == "" || c.Code != "") || c.Memory > plan.Limits.Memory || c.Processes > plan.Limits.Processes {
		return "control group"
	}
	if !r.Namespace.Applied {
		if n.Root.Applied || n.Process.Applied || n.Network.Applied || n.Loopback {
			return "parts of no namespace"
		}
		return ""
	}
	for name, l := range map[string]confine.Layer{"root": n.Root, "processes": n.Process, "network": n.Network} {
		if !told(l) || l.Code == confine.CodeNotAsked {
			return name
		}
	}
	if shared := n.Network.Code == confine.CodeNetShared; shared != (plan.Network == confine.NetworkAllow) {
		return "shared network"
	}
	if n.Loopback != (plan.Network == confine.NetworkLoopback && n.Network.Applied) {
		return "loopback"
	}
	if n.Root.Applied && !r.PrivateShm {
		return "shared memory"
	}
	return ""
}
