package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"testing"

	"brig/images"
	"brig/orchestrator"
	"brig/orchestrator/config"
	"brig/orchestrator/sandbox"
)

// TestExplain: whatever goes wrong becomes one sentence with the next command.
func TestExplain(t *testing.T) {
	base := &images.MissingBaseError{Base: "debian:trixie-slim"}
	for _, c := range []struct {
		err                   error
		code, message, remedy string
	}{
		{
			fmt.Errorf("start: %w", &sandbox.Unavailable{Code: "engine-absent", Reason: "no engine", Remedy: "dockerd"}),
			"engine-absent", "no engine", "dockerd",
		},
		{
			&orchestrator.RefusedError{Refusal: orchestrator.Refusal{Code: "x", Reason: "nothing holds", Remedy: "brig doctor"}},
			"x", "nothing holds", "brig doctor",
		},
		{
			explainImage(fmt.Errorf("ensure: %w", base)),
			"base-missing", "the base image debian:trixie-slim is not on this engine, and brig pulls nothing by itself (for one without a registry see docs/images.md)",
			"docker pull debian:trixie-slim",
		},
		{
			&config.Error{Problems: []config.Problem{{Key: "a.b", Text: "is wrong"}, {}, {}}},
			"settings", "a.b: is wrong; and 2 more problems", "brig config check",
		},
		{
			&sandbox.Lost{Ending: sandbox.Ending{Detail: "the engine is gone"}},
			"backend-lost", "the instance was lost (the engine is gone)", "brig doctor",
		},
		{fmt.Errorf("x: %w", context.Canceled), "cancelled", "interrupted before the code began", ""},
		{fmt.Errorf("start: %w", os.NewSyscallError("pipe2", syscall.EMFILE)), "failed", "start: pipe2: " + syscall.EMFILE.Error(), "ulimit -n 1024"},
		{errors.New("something"), "failed", "something", "brig doctor"},
	} {
		f := explain(c.err)
		if f.Code != c.code || f.Message != c.message || f.Remedy != c.remedy {
			t.Errorf("explain(%v) = %q, %q, %q", c.err, f.Code, f.Message, f.Remedy)
		}
	}
	if got := because(&fs.PathError{Op: "open", Path: "/secret", Err: fs.ErrPermission}); got != "permission denied" {
		t.Errorf("because = %q", got)
	}
}
