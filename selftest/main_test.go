package selftest_test

import (
	"os"
	"testing"

	"brig/hostfallback/confine"
)

// TestMain lets this binary be the helper that confines a session on the host.
func TestMain(m *testing.M) {
	confine.Dispatch()
	os.Exit(m.Run())
}
