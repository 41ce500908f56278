package server

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"brig/orchestrator/api"
)

type inAudit struct {
	PagePart
	Kind    string    `query:"kind" maxLength:"64" doc:"such as run, session, selftest; without it: all"`
	Session string    `query:"session" maxLength:"128" doc:"id or name"`
	Run     string    `query:"run" maxLength:"128"`
	Since   time.Time `query:"since" doc:"lines from this time on"`
	Until   time.Time `query:"until" doc:"lines before this time"`
}

func (s *surface) registerOps(a huma.API) {
	tags := []string{"operator"}
	add(a, huma.Operation{
		OperationID: "list-audit", Method: http.MethodGet, Path: "/v1/audit", Tags: tags,
		Summary: "Read the audit log", Description: "The latest line first. For operators.",
	}, 0, func(ctx context.Context, in *inAudit) (*answer[api.AuditList], error) {
		return answered(s.brigOf(ctx).Audit(ctx, api.AuditQuery{
			Page: in.page(), Kind: in.Kind, Session: in.Session, Run: in.Run, Since: in.Since, Until: in.Until,
		}))
	})
	add(a, huma.Operation{
		OperationID: "list-settings", Method: http.MethodGet, Path: "/v1/settings", Tags: tags,
		Summary: "List the settings", Description: "Each with its value in force and where that comes from. For operators.",
	}, 0, func(ctx context.Context, _ *none) (*answer[api.SettingList], error) {
		return answered(s.brigOf(ctx).Settings(ctx))
	})
	add(a, huma.Operation{
		OperationID: "create-login", Method: http.MethodPost, Path: "/v1/login", Tags: tags, DefaultStatus: http.StatusCreated,
		Summary: "Make an address that opens the pages", Description: "It works once and soon expires. For operators.",
	}, 0, func(ctx context.Context, _ *none) (*answer[api.PageLogin], error) {
		return answered(s.brigOf(ctx).PageLogin(ctx))
	})
	add(a, huma.Operation{
		OperationID: "shut-down", Method: http.MethodPost, Path: "/v1/shutdown", Tags: tags, DefaultStatus: http.StatusAccepted,
		Summary: "End brig", Description: "Answers before it ends. For operators.",
	}, 0, func(ctx context.Context, _ *none) (*none, error) {
		return nil, s.brigOf(ctx).Shutdown(ctx)
	})
}
