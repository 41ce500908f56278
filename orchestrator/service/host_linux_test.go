package service_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"brig/hostfallback"
	"brig/orchestrator/api"
	"brig/orchestrator/api/apitest"
	"brig/orchestrator/config"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/service"
)

// TestServiceOnHost holds the same against real interpreters in the host sandbox.
func TestServiceOnHost(t *testing.T) {
	apitest.Test(t, func(t *testing.T) apitest.Subject {
		dir := t.TempDir()
		b, err := hostfallback.New(hostfallback.Options{
			Env: os.LookupEnv, Cache: filepath.Join(dir, "cache"), Runtime: filepath.Join(dir, "run"), Owner: "service-test",
		})
		must(t, err)
		t.Cleanup(func() {
			if err := b.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		r := newRig(t, func(c *config.Config, o *service.Options) {
			c.Execution.Backend = sandbox.Host
			o.Backends = []sandbox.Backend{b}
		})
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
