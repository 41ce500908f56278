package service

import (
	"context"

	"brig/orchestrator/api"
	"brig/orchestrator/audit"
)

// operator refuses what only the person may do.
func (v *view) operator() error {
	if v.c.Role != Operator {
		return api.NewProblem(api.CodeForbidden, "only the operator may do that", "")
	}
	return nil
}

func (v *view) Audit(ctx context.Context, q api.AuditQuery) (api.AuditList, error) {
	if err := v.operator(); err != nil {
		return api.AuditList{}, err
	}
	return v.s.auditOf(ctx, q)
}

func (v *view) Settings(context.Context) (api.SettingList, error) {
	if err := v.operator(); err != nil {
		return api.SettingList{}, err
	}
	return api.SettingList{Settings: settingsOf(v.s.options.Config())}, nil
}

// PageLogin is written down before the token exists.
func (v *view) PageLogin(ctx context.Context) (api.PageLogin, error) {
	if err := v.operator(); err != nil {
		return api.PageLogin{}, err
	}
	if v.s.options.Login == nil {
		return api.PageLogin{}, api.NewProblem(api.CodeConflict, "this brig serves no pages", "brig config show server.listen")
	}
	if err := v.s.append(ctx, audit.KindLogin, v.actor(), audit.EventData{Event: "asked for"}); err != nil {
		return api.PageLogin{}, err
	}
	l, err := v.s.options.Login()
	return l, v.s.problem(err)
}

func (v *view) Shutdown(context.Context) error {
	if err := v.operator(); err != nil {
		return err
	}
	if v.s.options.Shutdown == nil {
		return api.NewProblem(api.CodeConflict, "this brig cannot be asked to end", "")
	}
	v.s.note(audit.KindBrig, v.actor(), audit.EventData{Event: "asked to end"})
	v.s.options.Shutdown()
	return nil
}
