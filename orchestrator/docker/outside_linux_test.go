package docker

import (
	"maps"
	"path/filepath"
	"testing"
)

func TestOutsideOfRecordedTrees(t *testing.T) {
	for name, want := range map[string]outside{
		"limits-v2": {label: "docker-default (enforce)", groups: map[string]string{
			"memory.max": "1073741824", "memory.swap.max": "0", "pids.max": "256", "cpu.max": "200000 100000",
		}},
		"limits-v1": {groups: map[string]string{
			"memory.limit_in_bytes": "1073741824", "memory.memsw.limit_in_bytes": "1073741824", "pids.max": "2304",
			"cpu.cfs_quota_us": "200000", "cpu.cfs_period_us": "100000",
		}},
		"other-pid": {}, // somebody else's process: nothing of it is evidence
		"v2-above":  {},
	} {
		dir := recorded(t, name)
		got := lookFromOutside(filepath.Join(dir, "proc"), dir, 4242, recordedID)
		if got.label != want.label || !maps.Equal(got.groups, want.groups) {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
		if other := lookFromOutside(filepath.Join(dir, "proc"), dir, 4242, recordedID[1:]+"0"); len(other.groups) > 0 || other.label != "" {
			t.Errorf("%s: another container's id finds %+v", name, other)
		}
	}
}
