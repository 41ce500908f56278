package docker

import (
	"testing"

	"brig/images"
)

func TestRunsCode(t *testing.T) {
	b := engineBackend(t, images.Core)
	i := session(t, b, coreBase(), t.TempDir())
	if o := ok(t, i, "print(6*7)"); o.stdout.String() != "42\n" {
		t.Errorf("stdout %q", o.stdout.String())
	}
	for _, l := range i.Posture().Layers {
		t.Logf("%-18s %-10s %s | %s | %s", l.ID, l.State, l.Mechanism, l.Reason, l.Evidence)
	}
}
