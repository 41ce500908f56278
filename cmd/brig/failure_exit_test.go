package main

import (
	"fmt"
	"testing"
)

// A failure that names no exit code is still one.
func TestFailureNeverExitsZero(t *testing.T) {
	if f := explain(fmt.Errorf("wrapped: %w", &failure{Code: "x", Message: "x"})); f.Exit != exitFailed {
		t.Errorf("it exits with %d", f.Exit)
	}
}
