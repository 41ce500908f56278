package main

import (
	"context"
	"errors"
	"fmt"

	"brig/orchestrator"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
	"brig/orchestrator/workspace"
)

// venue is where one program runs: in a session of this process, or in one of the brig
// that stays. What a person sees is the same.
type venue interface {
	// known says that resolution and posture are known before the run.
	known() bool
	resolution() orchestrator.Resolution
	posture() sandbox.Posture
	put(ctx context.Context, u *uploads) error
	// run runs the program. begin is called where they were not known, as soon as they are.
	run(ctx context.Context, r orchestrator.RunRequest, begin func(), emit func(wire.Event) error) (orchestrator.Result, error)
	// interrupt asks the running code to stop; errNotBegun.
	interrupt(ctx context.Context) error
	// bring copies what the run made or changed to o.
	bring(ctx context.Context, o *outDir, taken []string) brought
	close(ctx context.Context) error
}

// errNotBegun says that there is no code to interrupt: the run waits for others.
var errNotBegun = errors.New("the code has not begun")

// here is a session of this process.
type here struct {
	session *orchestrator.Session
	before  workspace.Snapshot
}

func (h *here) known() bool                         { return true }
func (h *here) resolution() orchestrator.Resolution { return h.session.Resolution() }
func (h *here) posture() sandbox.Posture            { return h.session.Posture() }
func (h *here) interrupt(ctx context.Context) error { return h.session.Interrupt(ctx) }
func (h *here) close(ctx context.Context) error     { return h.session.Close(ctx) }

func (h *here) put(ctx context.Context, u *uploads) (err error) {
	if err := u.put(ctx, h.session.Workspace()); err != nil {
		return err
	}
	if h.before, err = h.session.Workspace().Snapshot(); err != nil {
		return fmt.Errorf("look at the workspace before the run: %w", err)
	}
	return nil
}

func (h *here) run(ctx context.Context, r orchestrator.RunRequest, _ func(), emit func(wire.Event) error) (orchestrator.Result, error) {
	return h.session.Run(ctx, r, emit)
}

func (h *here) bring(ctx context.Context, o *outDir, taken []string) brought {
	return o.bring(ctx, h.session.Workspace(), h.before, taken)
}
