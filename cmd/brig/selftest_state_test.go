package main

import (
	"strings"
	"testing"

	"brig/orchestrator/sandbox"
	"brig/selftest"
)

// TestSelftestState: a self-test of something else than would run now is told as
// such and asks for nothing.
func TestSelftestState(t *testing.T) {
	s := selftestState{Backend: sandbox.Host, Variant: "off", Holds: selftest.Weaker, Line: "weaker than promised"}
	if text := s.String(); !strings.Contains(text, "tried on ") || !strings.Contains(text, "not what would run now") || s.again() != "" {
		t.Errorf("%q, again %q", text, s.again())
	}
	s.Current = true
	if text := s.String(); strings.Contains(text, "not what would run now") || s.again() == "" {
		t.Errorf("%q, again %q", text, s.again())
	}
}
