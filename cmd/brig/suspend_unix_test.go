//go:build unix

package main

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestStoppedAcrossTheDeadline: a brig that was stopped while a run's time went
// by finds the deadline passed when it goes on, and says so at once: it is a
// timeout, no fault of brig's, and nothing is left.
func TestStoppedAcrossTheDeadline(t *testing.T) {
	const limit = 2 * time.Second
	begun := time.Now()
	s := startRun(t, sleeper, "--timeout", limit.String())
	s.signal(t, syscall.SIGSTOP)
	// What passes here is the deadline itself: there is no event to wait for.
	time.Sleep(time.Until(begun.Add(2 * limit)))
	s.signal(t, syscall.SIGCONT)
	s.end(t, exitTimeout, 20*time.Second)
	if got := s.stderr.String(); !strings.Contains(got, "limit of 2s") || strings.Contains(got, "internal") {
		t.Errorf("standard error is:\n%s", got)
	}
}
