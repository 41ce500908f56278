package confine

import (
	"testing"
	"time"
)

// TestPauses: whoever makes a look slow gains no time from it without bound.
func TestPauses(t *testing.T) {
	for _, c := range []struct{ took, memory, disk time.Duration }{
		{0, 250 * time.Millisecond, time.Second},
		{60 * time.Millisecond, 250 * time.Millisecond, 1200 * time.Millisecond},
		{100 * time.Millisecond, 400 * time.Millisecond, 2 * time.Second},
		{time.Second, time.Second, 3 * time.Second},
		{time.Hour, time.Second, 3 * time.Second},
	} {
		if m, d := memoryPause(c.took), diskPause(c.took); m != c.memory || d != c.disk {
			t.Errorf("after %v: %v and %v", c.took, m, d)
		}
	}
}
