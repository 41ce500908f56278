package selftest

import (
	"os"
	"path/filepath"
	"testing"
)

// TestMeetings: what attempts leave in shared directories is seen, goes with the yard,
// and goes later where a killed run has left it; what is somebody's stays.
func TestMeetings(t *testing.T) {
	o := yardOptions(t)
	y := mustYard(t, o)
	pr := probeOf(t, sharedMake)
	p, got := attemptWith(t, y, pr, func(*plot, map[string]any) {})
	if p.sight(pr, got) != SeenYes {
		t.Errorf("%+v is not seen", got)
	}
	made := filepath.Join("/tmp", p.left()+"-made")
	if err := y.close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(made); err == nil {
		t.Errorf("%s is left", made)
	}
	long := filepath.Join("/tmp", strayName+meetName+random(8)+"-"+random(8))
	fresh := filepath.Join("/tmp", strayName+meetName+random(8)+"-"+random(8))
	other := filepath.Join("/tmp", strayName+meetName+"somebody-"+random(8))
	for _, path := range []string{long, fresh, other} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(path)
	}
	old(t, long, other)
	if err := mustYard(t, o).close(); err != nil {
		t.Error(err)
	}
	for path, stays := range map[string]bool{long: false, fresh: true, other: true} {
		if _, err := os.Lstat(path); (err == nil) != stays {
			t.Errorf("%s: %v, want it there: %v", path, err, stays)
		}
	}
	if !o.makes(fresh) || o.makes(other) || o.makes(filepath.Join("/etc", filepath.Base(fresh))) {
		t.Error("a record is believed for other names than those that are made")
	}
}
