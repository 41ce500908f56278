package service_test

import (
	"testing"

	"brig/orchestrator/api"
	"brig/orchestrator/api/apitest"
	"brig/orchestrator/service"
)

// TestService holds the service against what every api.Brig has to do.
func TestService(t *testing.T) {
	apitest.Test(t, func(t *testing.T) apitest.Subject {
		r := newRig(t)
		return apitest.Subject{
			Operator: r.operator(), Agent: r.agent("agent"), Other: r.agent("other"),
			Token: func(token string) api.Brig {
				id, ok := r.SessionOf(token)
				if !ok {
					return nil
				}
				return r.As(service.Caller{ID: "session:" + id, Session: id, Approval: api.ApprovedByCredential})
			},
		}
	})
}
