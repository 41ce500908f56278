package main

import (
	"flag"
	"os"
	"strings"
	"testing"

	"brig/orchestrator/sandbox"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestExitPage keeps docs/exit-codes.md equal to the table in the program.
func TestExitPage(t *testing.T) {
	const name = "../../docs/exit-codes.md"
	want := exitPage()
	if *update {
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s differs from the program's table; run: go test ./cmd/brig -run ExitPage -update", name)
	}
}

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		cause          sandbox.Cause
		status, signal int
		want           exitCode
	}{
		{sandbox.OK, 0, 0, 0},
		{sandbox.Exception, 1, 0, 1},
		{sandbox.Exit, 0, 0, 0},
		{sandbox.Exit, 42, 0, 42},
		{sandbox.Exit, 137, 0, 137}, // by itself: passed through
		{sandbox.Exit, 255, 0, 255},
		{sandbox.Timeout, 0, 9, 124},
		{sandbox.Interrupted, 0, 0, 130},
		{sandbox.Cancelled, 0, 9, 130},
		{sandbox.MemoryOut, 0, 9, 137},
		{sandbox.ProcessOut, 0, 0, 137},
		{sandbox.DiskOut, 0, 0, 137},
		{sandbox.OutputOut, 0, 0, 137},
		{sandbox.Killed, 0, 9, 137},
		{sandbox.Killed, 0, 11, 139},
		{sandbox.Killed, 0, 0, 137}, // the signal is not known
		{sandbox.Killed, 0, 200, 137},
		{sandbox.BackendLost, 0, 0, 125},
		{sandbox.Refused, 0, 0, 125},
		{sandbox.Internal, 0, 0, 125},
	} {
		if got := exitOf(c.cause, c.status, c.signal); got != c.want {
			t.Errorf("exitOf(%s, %d, %d) = %d, want %d", c.cause, c.status, c.signal, got, c.want)
		}
	}
}

// TestEveryCauseIsDocumented also fails, by panic, when a new cause has no code.
func TestEveryCauseIsDocumented(t *testing.T) {
	sig := watchSignals(t.Context())
	defer sig.close()
	for _, cause := range sandbox.Causes() {
		code := exitOf(cause, 0, 0)
		documented := false
		for _, row := range exitRows() {
			for _, name := range strings.Split(row.cause, ", ") {
				documented = documented || name == string(cause)
			}
		}
		if !documented {
			t.Errorf("cause %s (exit code %d) is not in the table", cause, code)
		}
		e := &execution{signals: sig}
		e.result.Cause = cause
		e.ending() // has words for every cause, or panics
	}
}
