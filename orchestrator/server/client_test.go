package server

import (
	"path/filepath"
	"testing"

	"brig/orchestrator/api"
	"brig/orchestrator/api/apitest"
)

// TestClient holds the client against what every api.Brig has to do: the operator's over
// the socket, where there are any, and programs' over loopback.
func TestClient(t *testing.T) {
	apitest.Test(t, func(t *testing.T) apitest.Subject {
		w := listening(t)
		client := func(e api.Endpoint) api.Brig {
			c := api.NewClient(e)
			t.Cleanup(c.Close)
			return c
		}
		token := func(token string) api.Brig { return client(api.Endpoint{Address: w.bound.Address, Token: token}) }
		s := apitest.Subject{Operator: token(w.person), Agent: token(w.agent), Token: token}
		if sockets {
			s.Operator = client(api.Endpoint{Socket: filepath.Join(w.dir, api.OperatorSocket)})
		}
		return s
	})
}
