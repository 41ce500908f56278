package main

import (
	"cmp"
	"errors"
	"time"

	"brig/orchestrator"
	"brig/orchestrator/api"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// resultOf is a run of the brig that stays as one of this process.
func resultOf(r api.Run) orchestrator.Result {
	out := orchestrator.Result{
		Cause: sandbox.Cause(r.Cause), Detail: r.Detail, Signal: r.Signal,
		Stdout: countOf(r.Stdout), Stderr: countOf(r.Stderr), Displays: len(r.Displays) + r.DisplaysDropped,
		Elapsed: duration(r.ElapsedMs), Queued: duration(r.QueuedMs), State: wire.State(r.Variables),
		NotCarried: r.NotCarried, NotBrought: r.NotBrought, RunnerReported: r.RunnerReported,
	}
	if r.ExitStatus != nil {
		out.Status = *r.ExitStatus
	}
	if x := r.Exception; x != nil {
		out.Exception = &wire.Exception{Name: x.Name, Message: x.Message, Traceback: x.Traceback, Truncated: x.Truncated}
		for _, f := range x.Frames {
			out.Exception.Frames = append(out.Exception.Frames, wire.Frame{File: f.File, Line: f.Line, Name: f.Name, Text: f.Text})
		}
	}
	if l := r.Log; l != nil {
		out.Log = &wire.Log{Path: l.Path, Bytes: l.Bytes, Dropped: l.DroppedBytes, Error: l.Error}
	}
	if r.Stamp != nil {
		out.Stamp = stampOf(*r.Stamp)
	}
	return out
}

func stampOf(s api.Stamp) orchestrator.Stamp {
	return orchestrator.Stamp{
		Backend: sandbox.Kind(s.Backend), Configured: sandbox.Kind(s.Configured), Mode: sandbox.Mode(s.Mode),
		Containment: s.Containment, Degraded: s.Degraded, Reasons: s.Reasons, Weakened: s.Weakened, Opened: s.Opened,
		Uncontained: s.Uncontained, PostureDigest: s.Posture, Identity: s.Identity, Guard: s.Guard, Session: s.Session,
	}
}

func countOf(o api.Output) wire.Count {
	return wire.Count{Total: o.TotalBytes, Kept: o.KeptBytes, Dropped: o.DroppedBytes, Incomplete: o.Incomplete}
}

func duration(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// asRefused gives a refusal of the brig that stays the form of one of this process, so
// that it reads the same.
func asRefused(err error) error {
	var p *api.Problem
	if !errors.As(err, &p) || p.Isolation == nil || len(p.Isolation.Refusals) == 0 {
		return err
	}
	refused := &orchestrator.RefusedError{}
	for _, r := range p.Isolation.Refusals {
		refused.Met = append(refused.Met, orchestrator.Refusal{Kind: sandbox.Kind(r.Backend), Code: r.Code, Reason: r.Reason, Remedy: r.Remedy})
	}
	refused.Refusal = refused.Met[len(refused.Met)-1]
	refused.Reason = cmp.Or(p.Detail, refused.Reason) // which sums all of them up
	return refused
}
