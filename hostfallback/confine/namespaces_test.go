package confine

import "testing"

// TestUnixConfined: unix sockets are for who cannot meet the user's, by path and by
// abstract name.
func TestUnixConfined(t *testing.T) {
	on, off := Layer{Applied: true}, Layer{Code: CodeOff}
	landlock := func(used int) Landlock { return Landlock{Layer: on, Used: used} }
	for name, c := range map[string]struct {
		r    Report
		want bool
	}{
		"nothing":                          {Report{}, false},
		"landlock 8":                       {Report{Landlock: landlock(8)}, false},
		"landlock 9":                       {Report{Landlock: landlock(9)}, true},
		"landlock 9 that was not used":     {Report{Landlock: Landlock{Layer: off, Used: 9}}, false},
		"root":                             {Report{Namespace: on, Namespaces: Namespaces{Root: on}}, false},
		"root and landlock 5":              {Report{Namespace: on, Namespaces: Namespaces{Root: on}, Landlock: landlock(5)}, false},
		"root and landlock 6":              {Report{Namespace: on, Namespaces: Namespaces{Root: on}, Landlock: landlock(6)}, true},
		"root and landlock 6 not used":     {Report{Namespace: on, Namespaces: Namespaces{Root: on}, Landlock: Landlock{Layer: off, Used: 6}}, false},
		"root and network":                 {Report{Namespace: on, Namespaces: Namespaces{Root: on, Network: on}}, true},
		"network and landlock 7":           {Report{Namespace: on, Namespaces: Namespaces{Network: on}, Landlock: landlock(7)}, false},
		"root and network of no namespace": {Report{Namespaces: Namespaces{Root: on, Network: on}}, false},
	} {
		if got := UnixConfined(c.r); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestGiveUp: a part that failed is left out with its reason, once; what is no
// part ends the attempts.
func TestGiveUp(t *testing.T) {
	whole := Policy{}.asked()
	for _, c := range []struct {
		stage, errno string
		want         Namespaces
	}{
		{StageNetwork, "EPERM", Namespaces{Root: whole.Root, Process: whole.Process, Network: Layer{Code: CodeNetRefused, Errno: "EPERM"}}},
		{StageRoot, "EINVAL", Namespaces{Root: Layer{Code: CodeMountRefused, Errno: "EINVAL"}, Process: whole.Process, Network: whole.Network}},
		{StageRoot, "ENOSYS", Namespaces{Root: Layer{Code: CodeMountOldKernel, Errno: "ENOSYS"}, Process: whole.Process, Network: whole.Network}},
		{StageProc, "EPERM", Namespaces{Root: whole.Root, Process: Layer{Code: CodeProcMasked, Errno: "EPERM"}, Network: whole.Network}},
		{StageProc, "ENODEV", Namespaces{Root: whole.Root, Process: Layer{Code: CodePIDRefused, Errno: "ENODEV"}, Network: whole.Network}},
	} {
		got, ok := whole.giveUp(&Failure{Stage: c.stage}, c.errno)
		if !ok || got.Root != c.want.Root || got.Process != c.want.Process || got.Network != c.want.Network {
			t.Errorf("%s %s: %+v %v", c.stage, c.errno, got, ok)
		}
		if _, ok := got.giveUp(&Failure{Stage: c.stage}, c.errno); ok {
			t.Errorf("%s is given up for ever", c.stage)
		}
	}
	for _, stage := range []string{StageNamespace, StageLandlock, StageSeccomp, StageExec} {
		if _, ok := whole.giveUp(&Failure{Stage: stage}, "EPERM"); ok {
			t.Errorf("%s is no part", stage)
		}
	}
	if n := (Policy{Network: NetworkAllow}).asked(); n.Network != (Layer{Code: CodeNetShared}) || !n.Root.Applied || !n.Process.Applied {
		t.Errorf("with the machine's network: %+v", n)
	}
}
