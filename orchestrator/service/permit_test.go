package service_test

import (
	"errors"
	"testing"

	"brig/orchestrator/api"
	"brig/orchestrator/config"
	"brig/orchestrator/sandbox"
	. "brig/orchestrator/sandbox/sandboxtest"
	"brig/orchestrator/service"
)

// TestAgentsRunContainedCodeOnly: whatever way an agent's credential comes, its code
// runs where a sandbox is backed and nowhere else; the operator's runs.
func TestAgentsRunContainedCodeOnly(t *testing.T) {
	r := newRig(t, func(c *config.Config, o *service.Options) {
		c.Execution.Fallback = config.None
		m := pretended(sandbox.Docker, "")
		for i := range m.Layers {
			if m.Layers[i].ID == sandbox.NetOutbound {
				m.Layers[i] = sandbox.Layer{ID: sandbox.NetOutbound, State: sandbox.Off, Code: "open", Reason: "the network is open", Remedy: "close it"}
			}
		}
		o.Backends = []sandbox.Backend{NewMemory(m)}
	})
	q := api.RunRequest{Code: program(Print("x"))}
	session := r.As(service.Caller{ID: "session:x", Via: "test", Approval: api.ApprovedByCredential})
	for what, b := range map[string]api.Brig{"agent": r.agent("agent"), "another": session} {
		_, err := b.Run(t.Context(), "", q, api.RunOptions{}, nil)
		var p *api.Problem
		if !errors.As(err, &p) || p.Code != api.CodeRefused || p.Isolation == nil || p.Remedy == "" {
			t.Errorf("%s: %v", what, err)
		}
		x, _, err := b.OpenSession(t.Context(), api.SessionRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Run(t.Context(), x.ID, q, api.RunOptions{}, nil); !errors.Is(err, &api.Problem{Code: api.CodeRefused}) {
			t.Errorf("%s, in a session: %v", what, err)
		}
		if got, err := b.Session(t.Context(), x.ID); err != nil || got.Runs != 0 || got.State != "idle" {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
	if run, err := r.operator().Run(t.Context(), "", q, api.RunOptions{}, nil); err != nil || run.Stdout.Text == "" {
		t.Errorf("%+v, %v", run, err)
	}
}

// TestAgentsLeaveSessions: agents together cannot take every session from the operator.
func TestAgentsLeaveSessions(t *testing.T) {
	r := newRig(t, func(c *config.Config, _ *service.Options) { c.Limits.Sessions = 4 })
	for _, id := range []string{"a", "b", "a"} {
		if _, _, err := r.agent(id).OpenSession(t.Context(), api.SessionRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	full := &api.Problem{Code: api.CodeTooMany}
	if _, _, err := r.agent("c").OpenSession(t.Context(), api.SessionRequest{}); !errors.Is(err, full) {
		t.Errorf("a fourth of agents: %v", err)
	}
	if _, err := r.agent("c").Run(t.Context(), "", api.RunRequest{Code: program(Print("x"))}, api.RunOptions{}, nil); !errors.Is(err, full) {
		t.Errorf("a run in one of its own: %v", err)
	}
	x, _, err := r.operator().OpenSession(t.Context(), api.SessionRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.operator().OpenSession(t.Context(), api.SessionRequest{}); !errors.Is(err, full) {
		t.Errorf("a fifth: %v", err)
	}
	if err := r.operator().CloseSession(t.Context(), x.ID); err != nil {
		t.Fatal(err)
	}
	mine, err := r.agent("b").Sessions(t.Context(), api.Page{})
	if err != nil || len(mine.Sessions) != 1 {
		t.Fatalf("%+v, %v", mine, err)
	}
	if err := r.agent("b").CloseSession(t.Context(), mine.Sessions[0].ID); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.agent("c").OpenSession(t.Context(), api.SessionRequest{}); err != nil {
		t.Errorf("after one was closed: %v", err)
	}
}
