package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"brig/orchestrator/api"
)

func (s *surface) registerStatus(a huma.API) {
	add(a, huma.Operation{
		OperationID: "get-status", Method: http.MethodGet, Path: "/v1/status", Tags: []string{"status"},
		Summary:     "Say where code would run now",
		Description: "The configured backend beside the one that is used, with every layer and every reason. To be looked at before code is trusted to a sandbox.",
	}, 0, func(ctx context.Context, _ *none) (*answer[api.Status], error) {
		return answered(s.brigOf(ctx).Status(ctx))
	})
	add(a, huma.Operation{
		OperationID: "list-backends", Method: http.MethodGet, Path: "/v1/backends", Tags: []string{"status"},
		Summary:     "List the ways to contain code",
		Description: "Each with what it can enforce here, or why it cannot be used.",
	}, 0, func(ctx context.Context, _ *none) (*answer[api.BackendList], error) {
		return answered(s.brigOf(ctx).Backends(ctx))
	})
}
