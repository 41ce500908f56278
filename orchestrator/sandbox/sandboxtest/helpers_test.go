package sandboxtest

import (
	"fmt"
	"testing"
)

// recorder is a testing.TB that remembers instead of failing.
type recorder struct {
	testing.TB
	failed   string
	skipped  string
	cleanups []func()
}

func (r *recorder) Helper()                        {}
func (r *recorder) Cleanup(f func())               { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(format string, a ...any) { r.failed = fmt.Sprintf(format, a...) }
func (r *recorder) Fatalf(format string, a ...any) { r.failed = fmt.Sprintf(format, a...) }
func (r *recorder) Skipf(format string, a ...any)  { r.skipped = fmt.Sprintf(format, a...) }

func TestCheckGoroutines(t *testing.T) {
	r := &recorder{TB: t}
	checkGoroutines(r, 0)
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() { <-stop; close(done) }()
	r.cleanups[0]()
	if r.failed == "" {
		t.Error("a goroutine that still runs was not noticed")
	}
	close(stop)
	<-done
	r.failed = ""
	r.cleanups[0]()
	if r.failed != "" {
		t.Errorf("a goroutine that has ended was reported: %s", r.failed)
	}
}

func TestSkip(t *testing.T) {
	r := &recorder{TB: t}
	t.Setenv("BRIG_TEST_DISALLOW_SKIP", "")
	Skip(r, "a moon", "none")
	if r.skipped != "needs a moon, found none" || r.failed != "" {
		t.Errorf("skipped %q, failed %q", r.skipped, r.failed)
	}
	r = &recorder{TB: t}
	t.Setenv("BRIG_TEST_DISALLOW_SKIP", "1")
	Skip(r, "a moon", "none")
	if r.failed == "" {
		t.Error("a skip that is forbidden did not fail")
	}
}
