package service

import (
	"slices"
	"strings"
	"time"

	"brig/orchestrator"
	"brig/orchestrator/api"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// This file turns what the orchestrator says into what callers are told.

func stampOf(s orchestrator.Stamp, by api.Approval) api.Stamp {
	return api.Stamp{
		Backend: string(s.Backend), Configured: string(s.Configured), Mode: string(s.Mode), Containment: s.Containment,
		Degraded: s.Degraded, Reasons: s.Reasons, Weakened: s.Weakened, Opened: s.Opened, Uncontained: s.Uncontained,
		Posture: s.PostureDigest, Identity: s.Identity, Guard: s.Guard, Session: s.Session, Approval: by,
		Line: s.Line() + approvalWords(by),
	}
}

// approvalWords say in a stamp's line that no person was asked, where none was.
func approvalWords(by api.Approval) string {
	switch by {
	case api.ApprovedByProfile:
		return " · no person was asked (permissions.profile is auto-approve)"
	case api.ApprovedByCredential:
		return " · no person was asked (a program's credential)"
	case api.ApprovedByOperator:
	}
	return ""
}

func layersOf(layers []sandbox.Layer, promised []sandbox.LayerID, verdicts map[sandbox.LayerID]sandbox.Verdict) []api.Layer {
	out := make([]api.Layer, 0, len(layers))
	for _, l := range layers {
		out = append(out, api.Layer{
			ID: string(l.ID), State: string(l.State), Mechanism: l.Mechanism, Code: l.Code, Reason: l.Reason, Remedy: l.Remedy,
			Evidence: l.Evidence, Promised: slices.Contains(promised, l.ID), Verdict: string(verdicts[l.ID]),
		})
	}
	return out
}

func refusalsOf(met []orchestrator.Refusal) []api.Refusal {
	out := make([]api.Refusal, 0, len(met))
	for _, r := range met {
		out = append(out, api.Refusal{Backend: string(r.Kind), Code: r.Code, Reason: r.Reason, Remedy: r.Remedy})
	}
	return out
}

func isolationOf(r orchestrator.Resolution, p sandbox.Posture) api.Isolation {
	return api.Isolation{
		Configured: string(r.Configured), Resolved: string(r.Resolved), Mode: string(r.Mode), Degraded: r.Degraded, Weakened: r.Weakened,
		Refusals: refusalsOf(r.Refusals), Warnings: notNil(orchestrator.Warnings(r, p)),
	}
}

func limitsOf(l sandbox.Limits) api.Limits {
	return api.Limits{
		MemoryBytes: l.Memory, Processes: l.Processes, MilliCPU: l.MilliCPU, WorkspaceBytes: l.Workspace, FileBytes: l.FileSize,
		OutputBytes: l.OutputKept,
	}
}

// describe is a session as a list shows it.
func (s *Service) describe(x *session) api.Session {
	i := x.live.Info()
	out := api.Session{
		ID: i.ID, Name: i.Name, State: i.State.String(), Created: i.Created.UTC(), Used: i.Used.UTC(), Expires: moment(i.Expires), IdleEnds: moment(i.IdleEnds),
		Run: string(i.Run), Queued: i.Queued, Runs: i.Runs, Limits: limitsOf(i.Limits), Stamp: stampOf(i.Stamp, x.approval),
		Warnings: notNil(orchestrator.Warnings(i.Resolution, i.Posture)), Note: i.Note, Creator: x.creator,
	}
	out.Warnings = append(out.Warnings, x.live.Differs()...)
	if out.Note == "" {
		out.Note = i.Loss
	}
	return out
}

// inFull is a session as it is shown alone: with all that is known of its containment.
func (s *Service) inFull(x *session) api.Session {
	out, i := s.describe(x), x.live.Info()
	out.Posture, out.Resolution = mustJSON(i.Posture), mustJSON(i.Resolution)
	return out
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Round(0)
	return &t
}

func notNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func exceptionOf(e *wire.Exception) *api.Exception {
	if e == nil {
		return nil
	}
	out := &api.Exception{Name: e.Name, Message: e.Message, Traceback: e.Traceback, Truncated: e.Truncated}
	for _, f := range e.Frames {
		out.Frames = append(out.Frames, api.Frame{File: f.File, Line: f.Line, Name: f.Name, Text: f.Text})
	}
	return out
}

func logOf(l *wire.Log) *api.Log {
	if l == nil {
		return nil
	}
	return &api.Log{Path: l.Path, Bytes: l.Bytes, DroppedBytes: l.Dropped, Error: l.Error}
}

// textual says that a representation is text, whatever its bytes are.
func textual(mime string) bool {
	mime, _, _ = strings.Cut(mime, ";")
	return strings.HasPrefix(mime, "text/") || mime == "image/svg+xml" || mime == "application/json" || strings.HasSuffix(mime, "+json")
}
