package hostfallback

import (
	"errors"
	"strings"
	"testing"

	"brig/orchestrator/sandbox"
)

// noParts are the parts of a namespace sandbox that hold by themselves what
// another layer holds as well: without them it shows what that layer is good for.
const noParts = "pivot+newpid+newnet"

// TestGaps: on a poorer machine the posture names the gap, the attack through
// the gap really works, and everything else still holds.
func TestGaps(t *testing.T) {
	needWhole(t)
	cases := []struct {
		lacks   string
		layers  map[sandbox.LayerID]string // beside those of a whole machine
		open    []string                   // attacks that get through
		blocked []string
	}{
		{
			"namespaces",
			map[sandbox.LayerID]string{sandbox.FSWrite: "partial userns-refused", sandbox.FSRead: "partial userns-refused", sandbox.ProcessLimit: "partial nproc-per-user"},
			[]string{"chmod", "chown", "utime", "o_path", "shm_other"},
			[]string{"tcp", "udp", "unix_path", "unix_abstract", "pair_dgram", "read_secret", "write_outside", "truncate", "environ", "mem", "kill", "vm_read", "prlimit", "sysv"},
		},
		{
			"landlock+" + noParts,
			map[sandbox.LayerID]string{sandbox.FSRead: "unsupported landlock-not-built", sandbox.Signals: "unsupported landlock-not-built"},
			[]string{"read_secret", "list_outside", "kill"},
			[]string{"tcp", "udp", "unix_path", "unix_abstract", "write_outside", "truncate", "chmod", "vm_read", "prlimit", "sysv", "mem", "environ"},
		},
		{
			"seccomp+" + noParts,
			map[sandbox.LayerID]string{sandbox.NetOutbound: "partial landlock-tcp-only", sandbox.UnixSockets: "partial landlock-abi-7-lacks-unix", sandbox.SyscallFilter: "unsupported seccomp-not-built"},
			[]string{"udp", "unix_path", "pair_dgram", "prlimit"},
			[]string{"tcp", "unix_abstract", "read_secret", "write_outside", "chmod", "kill", "mem", "sysv"},
		},
	}
	for _, c := range cases {
		t.Run(c.lacks, func(t *testing.T) {
			b := poorBackend(t, c.lacks)
			i := openInstance(t, b, testBase())
			p := i.Posture()
			for id, want := range c.layers {
				l := p.Layer(id)
				// Which switch refuses namespaces depends on the machine.
				if got := string(l.State) + " " + l.Code; got != want && !strings.HasPrefix(l.Code, "userns-") {
					t.Errorf("%s: got %s (%s), want %s", id, got, l.Reason, want)
				}
			}
			forecast, err := b.Capabilities(testContext(t), testBase())
			if err != nil {
				t.Fatal(err)
			}
			for n, l := range forecast {
				if l.State != p.Layers[n].State || l.Code != p.Layers[n].Code {
					t.Errorf("forecast %+v, posture %+v", l, p.Layers[n])
				}
			}
			g := newTargets(t)
			a := attackIn(t, i, t.TempDir(), nil)
			for _, name := range c.open {
				if got := a.try(t, name, g); got.Said != "ok" {
					t.Errorf("%s: %s; the posture names a gap that is none", name, got.Said)
				}
			}
			for _, name := range c.blocked {
				if got := a.try(t, name, g); got.Said == "ok" {
					t.Errorf("%s got through", name)
				}
			}
		})
	}
}

// TestRequire refuses a machine with a gap among the promised layers, and
// closes the gap that it can close with refusals.
func TestRequire(t *testing.T) {
	needWhole(t)
	base := testBaseOf(sandbox.ModeRequire)
	for _, lacks := range []string{"landlock+" + noParts, "seccomp+" + noParts, "landlock+seccomp+namespaces"} {
		_, err := poorBackend(t, lacks).Prepare(testContext(t), base, t.TempDir())
		var refused *sandbox.Unavailable
		if !errors.As(err, &refused) || refused.Code != "host-sandbox-incomplete" || refused.Remedy == "" {
			t.Errorf("%s: %v", lacks, err)
		}
	}
	for _, b := range []*Backend{testBackend(t), poorBackend(t, "namespaces")} {
		i := openInstance(t, b, base)
		if gaps := i.Posture().Warnings(); len(gaps) > 0 {
			t.Errorf("require runs with gaps: %v", gaps)
		}
		g := newTargets(t)
		a := attackIn(t, i, t.TempDir(), nil)
		for _, name := range []string{"chmod", "chown", "utime", "o_path", "shm_other", "fchmodat2"} {
			if a.try(t, name, g).Said == "ok" {
				t.Errorf("%s got through", name)
			}
		}
	}
}
