package confine

import (
	"fmt"
	"strings"
	"testing"
)

// TestSessionMounts: what hides the siblings of a session, written out.
func TestSessionMounts(t *testing.T) {
	hidden := hide(Survey{Paths: map[string]Found{"/proc/acpi": {Kind: Dir}, "/proc/keys": {Kind: File}}})
	view := func(extra ...Step) []Step {
		return append([]Step{
			{Op: OpTmpfs, Path: "/", Size: sizeRoot, Mode: modeDir},
			{Op: OpTmpfs, Path: tmpDir, Size: 1 << 20, Mode: modeShared, Attrs: []Attr{NoExec}},
			{Op: OpTmpfs, Path: shmRoot, Size: 1 << 20, Mode: modeShared, Attrs: []Attr{NoExec}},
			{Op: OpBind, Path: "/usr", Source: "/usr"},
			{Op: OpAttr, Path: "/", Attrs: []Attr{ReadOnly, NoSuid, NoDev}},
			{Op: OpOpen, Path: tmpDir},
			{Op: OpOpen, Path: shmRoot},
		}, extra...)
	}
	for name, c := range map[string]struct {
		policy Policy
		bases  []string
		view   []Step
		want   string
	}{
		"in the home": {
			Policy{Workspace: "/home/u/data/s1/workspace", Scratch: "/run/u/brig/host/i1/scratch"},
			[]string{"/home/u/data", "/run/u/brig/host"},
			view(), `
mount /tmp
mount /dev/shm
mount /home/u/data
mount /run/u/brig/host
show /home/u/data/s1/workspace
show /run/u/brig/host/i1/scratch
change /home/u/data ro
change /run/u/brig/host ro
mount /proc ro
mount /proc/acpi ro
hide /proc/keys
change /proc/keys ro`,
		},
		"in /tmp, with a grant beside": {
			Policy{Workspace: "/tmp/a/data/s1", Scratch: "/tmp/a/host/i1/scratch"},
			[]string{"/tmp/a/data", "/tmp/a/host"},
			view(Step{Op: OpBind, Path: "/tmp/a/runner", Source: "/tmp/a/runner"}, Step{Op: OpBind, Path: "/tmp/a/data"}, Step{Op: OpBind, Path: "/tmp/a/host"}), `
mount /tmp
mount /dev/shm
mount /tmp/a
show /tmp/a/runner
show /tmp/a/data/s1
show /tmp/a/host/i1/scratch
change /tmp/a ro
mount /proc ro
mount /proc/acpi ro
hide /proc/keys
change /proc/keys ro`,
		},
	} {
		var got strings.Builder
		for _, m := range c.policy.sessionMounts(c.view, hidden, c.bases...) {
			fmt.Fprintf(&got, "\n%s %s", m.Do, m.At)
			if m.Flags&mountReadOnly != 0 {
				got.WriteString(" ro")
			}
			device := m.At == "/proc/keys" // what hides it is one
			if m.Do != doShow && !device && m.Flags&(mountNoSuid|mountNoDev) != mountNoSuid|mountNoDev {
				t.Errorf("%s: %s has flags %#x", name, m.At, m.Flags)
			}
		}
		if got.String() != c.want {
			t.Errorf("%s: %s", name, got.String())
		}
		writable := c.policy.sessionWritable(c.view, c.bases...)
		for at, want := range map[string]bool{c.policy.Workspace: true, c.policy.Scratch: true, tmpDir: true, shmRoot: true, "/usr": false, "/": false, c.bases[0]: false, c.bases[1]: false} {
			if writable[at] != want {
				t.Errorf("%s: %s may be written to: %v", name, at, writable[at])
			}
		}
	}
}
