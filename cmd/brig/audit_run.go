package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"brig/orchestrator"
	"brig/orchestrator/audit"
	"brig/orchestrator/wire"
)

// This file writes down what a brig that ends with its verb has run. A brig that
// stays does so itself.

// whereOf is what contains code, in the words of the audit log.
func whereOf(s orchestrator.Stamp) audit.Where {
	return audit.Where{
		Backend: string(s.Backend), Configured: string(s.Configured), Mode: string(s.Mode), Containment: s.Containment,
		Degraded: s.Degraded, Reasons: s.Reasons, Weakened: s.Weakened, Opened: s.Opened, Uncontained: s.Uncontained,
		Posture: s.PostureDigest, Identity: s.Identity,
	}
}

// self is who a verb acts for: whoever may start it may read its settings too.
func (p *program) self(verb string) string {
	return fmt.Sprintf("operator (brig %s, uid %d, pid %d)", verb, os.Getuid(), os.Getpid())
}

// audited is a session of this process whose run is written down.
type audited struct {
	here
	log   *audit.Log
	actor string
	code  bool // with the source
}

// opened writes down a session, before any code is in it. What weakens the
// containment is on the disk when it returns.
func (a *audited) opened(ctx context.Context) error {
	info := a.session.Info()
	where := whereOf(info.Stamp)
	e := audit.Entry{Kind: audit.KindSession, Actor: a.actor, Data: audit.SessionData{
		Event: "opened", Session: info.ID, Creator: "operator", Where: &where,
	}}
	write := a.log.Note
	if where.Weak() {
		write = a.log.Append
	}
	_, err := write(ctx, e)
	return err
}

func (a *audited) run(ctx context.Context, r orchestrator.RunRequest, begin func(), emit func(wire.Event) error) (orchestrator.Result, error) {
	d := audit.RunData{Event: "accepted", Session: a.session.ID(), Code: audit.CodeOf(r.Source, a.code), Approval: "operator"}
	if _, err := a.log.Note(ctx, audit.Entry{Kind: audit.KindRun, Actor: a.actor, Data: d}); err != nil {
		return orchestrator.Result{}, err
	}
	result, err := a.here.run(ctx, r, begin, emit)
	if result.Cause != "" {
		where := whereOf(result.Stamp)
		d.Event, d.Run, d.Where, d.Cause, d.Detail, d.ElapsedMs = "ended", string(result.Run), &where, string(result.Cause), result.Detail, millis(result.Elapsed)
		d.Code.Text = "" // it stands in the line before
		_, noted := a.log.Note(context.WithoutCancel(ctx), audit.Entry{Kind: audit.KindRun, Actor: a.actor, Data: d})
		err = errors.Join(err, noted)
	}
	return result, err
}

// consented writes down that a person accepted less containment, before it counts.
func consented(ctx context.Context, log *audit.Log, actor string) error {
	_, err := log.Append(ctx, audit.Entry{Kind: audit.KindConsent, Actor: actor, Data: audit.EventData{
		Event: "accepted", Detail: "on this machine code may run where neither files nor system calls can be confined",
	}})
	return err
}

// refused writes down that nothing ran.
func (a *assembly) refused(ctx context.Context, actor string, source []byte, err error) error {
	var refused *orchestrator.RefusedError
	if !errors.As(err, &refused) {
		return err
	}
	_, noted := a.audit.Note(context.WithoutCancel(ctx), audit.Entry{Kind: audit.KindRun, Actor: actor, Data: audit.RunData{
		Event: "refused", Code: audit.CodeOf(source, false), Approval: "operator", Cause: "refused", Detail: refusalsLine(refusalsOf(refused)),
	}})
	return errors.Join(err, noted)
}

func refusalsLine(met []orchestrator.Refusal) string {
	var parts []string
	for _, r := range met {
		parts = append(parts, fmt.Sprintf("%s: %s", r.Kind, r.Reason))
	}
	return strings.Join(parts, "; ")
}
