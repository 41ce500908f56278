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
	wrong := func(what string) error {
		return fmt.Errorf("confine the runner: the helper's report does not fit its plan: %s", what)
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
		return wrong("descriptors")
	}
	if len(r.Variables) != len(plan.Env) {
		return wrong("environment")
	}
	if s := r.Seccomp; s.Applied {
		if want, ok := confine.FilterHash(goarch, s.Filter); !ok || s.Hash != want {
			return wrong("filter")
		}
		if s.Filter.Inet != plan.Inet() || s.Filter.Unix && r.Landlock.Used < 9 {
			return wrong("filter variant")
		}
		if plan.Mode == confine.ModeRequire && s.Filter.Metadata && !r.Namespace.Applied {
			return wrong("metadata calls")
		}
	}
	return nil
}
