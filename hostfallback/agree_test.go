package hostfallback

import (
	"testing"

	"brig/hostfallback/confine"
)

// TestUntold: every part of the namespaces is there or says why not, and nothing
// is there that was not to be.
func TestUntold(t *testing.T) {
	refused := confine.Layer{Code: confine.CodeNetRefused, Errno: "EPERM"}
	silent := confine.Layer{}
	for name, c := range map[string]struct {
		network confine.Network
		change  func(*confine.Report)
		want    bool
	}{
		"whole":               {confine.NetworkDeny, func(*confine.Report) {}, true},
		"refused with reason": {confine.NetworkDeny, func(r *confine.Report) { r.Namespaces.Network = refused }, true},
		"no namespaces": {confine.NetworkDeny, func(r *confine.Report) {
			r.Namespace, r.Namespaces = confine.Layer{Code: confine.CodeUsernsRefused}, confine.Namespaces{}
		}, true},
		"shared": {confine.NetworkAllow, func(r *confine.Report) {
			r.Namespaces.Network = confine.Layer{Code: confine.CodeNetShared}
		}, true},
		"loopback":                 {confine.NetworkLoopback, func(r *confine.Report) { r.Namespaces.Loopback = true }, true},
		"loopback without a stack": {confine.NetworkLoopback, func(r *confine.Report) { r.Namespaces.Network = refused }, true},

		"root in silence":      {confine.NetworkDeny, func(r *confine.Report) { r.Namespaces.Root = silent }, false},
		"processes in silence": {confine.NetworkDeny, func(r *confine.Report) { r.Namespaces.Process = silent }, false},
		"network in silence":   {confine.NetworkDeny, func(r *confine.Report) { r.Namespaces.Network = silent }, false},
		"not asked": {confine.NetworkDeny, func(r *confine.Report) {
			r.Namespaces.Root.Applied, r.Namespaces.Root.Code = false, confine.CodeNotAsked
		}, false},
		"applied with a reason": {confine.NetworkDeny, func(r *confine.Report) {
			r.Namespaces.Root.Code = confine.CodeMountRefused
		}, false},
		"landlock in silence":     {confine.NetworkDeny, func(r *confine.Report) { r.Landlock.Layer = silent }, false},
		"filter in silence":       {confine.NetworkDeny, func(r *confine.Report) { r.Seccomp.Layer = silent }, false},
		"landlock off":            {confine.NetworkDeny, func(r *confine.Report) { r.Landlock.Layer = confine.Layer{Code: confine.CodeOff} }, false},
		"namespaces not asked":    {confine.NetworkDeny, func(r *confine.Report) { r.Namespace = confine.Layer{Code: confine.CodeNotAsked} }, false},
		"parts without the whole": {confine.NetworkDeny, func(r *confine.Report) { r.Namespace = confine.Layer{Code: confine.CodeUsernsRefused} }, false},
		"shared but not allowed":  {confine.NetworkDeny, func(r *confine.Report) { r.Namespaces.Network = confine.Layer{Code: confine.CodeNetShared} }, false},
		"own but allowed":         {confine.NetworkAllow, func(*confine.Report) {}, false},
		"loopback stays down":     {confine.NetworkLoopback, func(*confine.Report) {}, false},
		"loopback not asked":      {confine.NetworkDeny, func(r *confine.Report) { r.Namespaces.Loopback = true }, false},
		"shared memory":           {confine.NetworkDeny, func(r *confine.Report) { r.PrivateShm = false }, false},
	} {
		r := whole()
		c.change(&r)
		plan := confine.Plan{Policy: confine.Policy{Mode: confine.ModeBestEffort, Network: c.network, Namespace: true}}
		if got := untold(plan, r); (got == "") != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
