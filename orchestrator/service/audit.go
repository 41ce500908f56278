package service

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"brig/orchestrator"
	"brig/orchestrator/api"
	"brig/orchestrator/audit"
)

// actor is who asks, for the audit log.
func (v *view) actor() string {
	if v.c.Via == "" {
		return v.c.ID
	}
	return v.c.ID + " through " + v.c.Via
}

// note writes a line about what has happened, or happens whether or not it can be
// written; that it could not is counted and logged.
func (s *Service) note(kind audit.Kind, actor string, data any) {
	_ = s.write(kind, actor, data) // logged there
}

// write has a line with the kernel, so that it survives a kill of this process.
func (s *Service) write(kind audit.Kind, actor string, data any) error {
	ctx, cancel := bounded(context.Background(), recordBound)
	defer cancel()
	_, err := s.options.Audit.Note(ctx, audit.Entry{Kind: kind, Actor: actor, Data: data})
	return s.unwritten(err)
}

// append has a line on the disk before what it is about is done; on an error that
// must not be done.
func (s *Service) append(ctx context.Context, kind audit.Kind, actor string, data any) error {
	ctx, cancel := bounded(ctx, recordBound)
	defer cancel()
	_, err := s.options.Audit.Append(ctx, audit.Entry{Kind: kind, Actor: actor, Data: data})
	return s.unwritten(err)
}

func (s *Service) unwritten(err error) error {
	if err == nil {
		return nil
	}
	s.tally.auditFailed()
	s.options.Log.Error().Err(err).Msg("the audit log refused a line")
	return retry(api.NewProblem(api.CodeStorage, "the audit log cannot be written, so nothing was done: "+err.Error(), "brig audit verify"), 5)
}

func whereOf(st orchestrator.Stamp) *audit.Where {
	return &audit.Where{
		Backend: string(st.Backend), Configured: string(st.Configured), Mode: string(st.Mode), Containment: st.Containment, Degraded: st.Degraded,
		Reasons: st.Reasons, Weakened: st.Weakened, Opened: st.Opened, Uncontained: st.Uncontained, Posture: st.PostureDigest, Identity: st.Identity,
	}
}

// bound is asked before anything runs in an instance that a session has got. Where
// that is less than the whole containment, a line is on the disk first.
func (s *Service) bound(live *orchestrator.Session, _ orchestrator.Resolution, st orchestrator.Stamp) error {
	where := whereOf(st)
	if !where.Weak() {
		return nil // every run says where it ran
	}
	return s.append(s.life, audit.KindSession, "brig", audit.SessionData{Event: "bound", Session: live.ID(), Name: live.Name(), Where: where})
}

// code describes a source as the settings want it.
func (r *run) code() audit.Code {
	if r.s.options.Config().Config.Audit.Code {
		return audit.CodeOf(r.source, true)
	}
	return audit.Code{SHA256: r.view.CodeSHA256, Bytes: len(r.source)}
}

// accepted writes down that a run begins, before anything of it is done.
func (s *Service) accepted(_ context.Context, r *run) error {
	return s.write(audit.KindRun, r.v.actor(), audit.RunData{
		Event: "accepted", Run: r.view.ID, Session: r.session.id, Name: r.session.name, Code: r.code(), Approval: string(r.v.c.Approval),
	})
}

// witness writes down how a run ended. It survives a kill of this process when
// witness returns.
func (s *Service) witness(r *run, final *api.Run, st orchestrator.Stamp) error {
	return s.write(audit.KindRun, r.v.actor(), audit.RunData{
		Event: "ended", Run: final.ID, Session: final.Session, Name: r.session.name, Approval: string(r.v.c.Approval),
		Code: audit.Code{SHA256: final.CodeSHA256, Bytes: int(final.CodeBytes)}, Cause: final.Cause, Detail: final.Detail, ElapsedMs: final.ElapsedMs, Where: whereOf(st),
	})
}

// auditOf is one page of the log.
func (s *Service) auditOf(ctx context.Context, q api.AuditQuery) (api.AuditList, error) {
	out := api.AuditList{Lines: []api.AuditLine{}}
	if q.Kind != "" && !slices.Contains(audit.Kinds(), audit.Kind(q.Kind)) {
		return out, invalid("query.kind", fmt.Sprintf("it is one of %v", audit.Kinds()))
	}
	lines, next, err := s.options.Audit.Query(ctx, audit.Query{
		Kind: audit.Kind(q.Kind), Session: q.Session, Run: q.Run, Since: q.Since, Until: q.Until, Limit: q.Limit, Cursor: q.Cursor,
	})
	if errors.Is(err, audit.ErrCursor) {
		return out, invalid("query.cursor", audit.ErrCursor.Error())
	}
	if err != nil {
		return out, s.unread(ctx, err)
	}
	for _, l := range lines {
		out.Lines = append(out.Lines, api.AuditLine{Number: l.Number, Time: l.Time, Kind: string(l.Kind), Actor: l.Actor, Data: l.Data, Hash: l.Hash})
	}
	out.Next = next
	out.Chain, out.Holds = s.chain()
	return out, nil
}

// chain is what the check at the start said, and what has been met since.
func (s *Service) chain() (sentence string, holds bool) {
	found := s.options.Audited.Problems
	if len(found) > 0 {
		return found[0], false
	}
	sentence = fmt.Sprintf("the end of the chain held when brig began, and it has %d lines now; all of it is checked by brig audit verify", s.options.Audit.Head().Number)
	if failed := s.tally.auditFailures(); failed > 0 {
		return fmt.Sprintf("%s; %d lines could not be written since", sentence, failed), false
	}
	return sentence, true
}
