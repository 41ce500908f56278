package service

import (
	"context"

	"brig/orchestrator/api"
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
	return api.AuditList{}, unbuilt()
}

func (v *view) Settings(ctx context.Context) (api.SettingList, error) {
	if err := v.operator(); err != nil {
		return api.SettingList{}, err
	}
	return api.SettingList{}, unbuilt()
}

func (v *view) PageLogin(ctx context.Context) (api.PageLogin, error) {
	if err := v.operator(); err != nil {
		return api.PageLogin{}, err
	}
	return api.PageLogin{}, unbuilt()
}

func (v *view) Shutdown(ctx context.Context) error {
	if err := v.operator(); err != nil {
		return err
	}
	return unbuilt()
}
