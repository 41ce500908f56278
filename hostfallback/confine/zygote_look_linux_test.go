package confine

import (
	"strings"
	"testing"
)

// TestLookAtMounts: a table of mounts with anything more in it that can be
// written to, or without the session's own, is not believed.
func TestLookAtMounts(t *testing.T) {
	const good = `1 0 0:1 / / ro,nosuid - tmpfs tmpfs rw
2 1 0:2 / /usr ro,nosuid - ext4 /dev/a rw
3 1 0:3 / /data rw,nosuid - ext4 /dev/a rw
4 1 0:4 / /dev/null rw,nosuid - ext4 /dev/a rw
5 3 0:5 / /data ro,nosuid - tmpfs tmpfs rw
6 5 0:6 / /data/s1 rw,nosuid - ext4 /dev/a rw
7 5 0:7 / /data/s1/scratch rw,nosuid - ext4 /dev/a rw
8 1 0:8 / /proc ro,nosuid - proc proc rw
`
	writable := map[string]bool{"/data/s1": true, "/data/s1/scratch": true, "/dev/null": true}
	for name, c := range map[string]struct{ table, says string }{
		"good":                       {good, ""},
		"a sibling":                  {good + "9 5 0:9 / /data/s2 rw - ext4 /dev/a rw\n", "can write to /data/s2"},
		"all, uncovered":             {strings.Replace(good, "/data ro,", "/data rw,", 1), "can write to /data"},
		"all, covering":              {good + "9 5 0:9 / /data rw - ext4 /dev/a rw\n", "/data"},
		"the root":                   {strings.Replace(good, "/ / ro,", "/ / rw,", 1), "can write to /"},
		"without its own":            {strings.Replace(good, "/data/s1 rw", "/data/s9 ro", 1), "has not got /data/s1"},
		"its own cannot be used":     {strings.Replace(good, "/data/s1/scratch rw", "/data/s1/scratch ro", 1), "has not got /data/s1/scratch"},
		"what does not say anything": {good + "9 5\n", "says"},
	} {
		err := lookAtMounts(c.table, writable, "/data/s1", "/data/s1/scratch")
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}
