package sandboxtest

import (
	"os"
	"testing"
)

// Skip ends a test that cannot run here and says what it needed and what it
// found. Where BRIG_TEST_DISALLOW_SKIP is set to anything but nothing it fails
// the test instead: there, everything the machine can run must run.
func Skip(t testing.TB, need, found string) {
	t.Helper()
	if os.Getenv("BRIG_TEST_DISALLOW_SKIP") != "" {
		t.Fatalf("needs %s, found %s; skips are forbidden by BRIG_TEST_DISALLOW_SKIP", need, found)
	}
	t.Skipf("needs %s, found %s", need, found)
}

// OptIn is for a test against something that takes minutes to make and that the
// long run makes: variable names where it is, and made says what makes it. Without
// the variable the test is passed over, whether skips are forbidden or not.
func OptIn(t testing.TB, variable, made string) string {
	t.Helper()
	value := os.Getenv(variable)
	if value == "" {
		t.Skipf("%s is not set; %s", variable, made)
	}
	return value
}
