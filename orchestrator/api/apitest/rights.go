package apitest

import (
	"strings"
	"testing"

	"brig/orchestrator/api"
	"brig/orchestrator/sandbox/sandboxtest"
)

// forbidden is what only the operator may do.
func forbidden(t *testing.T, b api.Brig) {
	ctx := within(t)
	_, err := b.Audit(ctx, api.AuditQuery{})
	wantCode(t, "the audit log", err, api.CodeForbidden)
	_, err = b.Settings(ctx)
	wantCode(t, "the settings", err, api.CodeForbidden)
	_, err = b.PageLogin(ctx)
	wantCode(t, "a login", err, api.CodeForbidden)
	wantCode(t, "the end", b.Shutdown(ctx), api.CodeForbidden)
	_, err = b.Selftest(ctx, api.SelftestRequest{})
	wantCode(t, "a self-test", err, api.CodeForbidden)
}

// hidden checks that nothing of a session and its run can be seen or touched.
func hidden(t *testing.T, b api.Brig, x api.Session, run string) {
	ctx := within(t)
	for _, name := range []string{x.ID, x.Name} {
		_, err := b.Session(ctx, name)
		wantCode(t, "another's session", err, api.CodeNotFound)
		_, err = b.Run(ctx, name, code(sandboxtest.Print("x")), api.RunOptions{}, nil)
		wantCode(t, "run in it", err, api.CodeNotFound)
		wantCode(t, "close it", b.CloseSession(ctx, name), api.CodeNotFound)
		wantCode(t, "interrupt it", b.Interrupt(ctx, name), api.CodeNotFound)
		_, err = b.Reset(ctx, name, api.ResetOptions{})
		wantCode(t, "reset it", err, api.CodeNotFound)
		_, err = b.RenewSession(ctx, name, api.Renewal{})
		wantCode(t, "renew it", err, api.CodeNotFound)
		_, err = b.Variables(ctx, name)
		wantCode(t, "its variables", err, api.CodeNotFound)
		_, err = b.Runs(ctx, name, api.Page{})
		wantCode(t, "its runs", err, api.CodeNotFound)
		_, err = b.SessionToken(ctx, name)
		wantCode(t, "its token", err, api.CodeNotFound)
		_, err = b.Files(ctx, name, "", api.Page{})
		wantCode(t, "its files", err, api.CodeNotFound)
		_, _, err = b.ReadFile(ctx, name, "x", api.Range{})
		wantCode(t, "one of its files", err, api.CodeNotFound)
		_, err = b.Datasets(ctx, name)
		wantCode(t, "its datasets", err, api.CodeNotFound)
		_, err = b.ReadArchive(ctx, name, "", api.Tar)
		wantCode(t, "its archive", err, api.CodeNotFound)
		_, err = b.Export(ctx, name, api.Script)
		wantCode(t, "its export", err, api.CodeNotFound)
	}
	_, err := b.FindRun(ctx, run, api.FindOptions{})
	wantCode(t, "another's run", err, api.CodeNotFound)
	_, err = b.CancelRun(ctx, run)
	wantCode(t, "cancel it", err, api.CodeNotFound)
	wantCode(t, "follow it", b.Follow(ctx, run, 0, func(api.Event) error { return nil }), api.CodeNotFound)
	l, err := b.Sessions(ctx, api.Page{})
	must(t, err)
	for _, s := range l.Sessions {
		if s.ID == x.ID {
			t.Error("it is in the list")
		}
	}
}

func rights(t *testing.T, s Subject) {
	ctx := within(t)
	forbidden(t, s.Agent)
	own := open(t, s.Operator, api.SessionRequest{Name: "operators"})
	r := run(t, s.Operator, own.ID, sandboxtest.Print("secret"))
	if r.Stamp.Approval != api.ApprovedByOperator {
		t.Errorf("approved by %s", r.Stamp.Approval)
	}
	hidden(t, s.Agent, own, r.ID)
	_, _, err := s.Agent.OpenSession(ctx, api.SessionRequest{Name: "operators"})
	wantCode(t, "a name that somebody else has", err, api.CodeNameTaken)
	agents := open(t, s.Agent, api.SessionRequest{Name: "agents"})
	mine := run(t, s.Agent, agents.ID, sandboxtest.Print("x"))
	if s.Other != nil {
		hidden(t, s.Other, agents, mine.ID)
	}
	// The operator sees all of it.
	got, err := s.Operator.Session(ctx, "agents")
	must(t, err)
	if got.ID != agents.ID || got.Creator != agents.Creator {
		t.Errorf("%+v", got)
	}
	l, err := s.Operator.Sessions(ctx, api.Page{})
	must(t, err)
	if len(l.Sessions) != 2 {
		t.Errorf("%d sessions", len(l.Sessions))
	}
	_, err = s.Operator.FindRun(ctx, mine.ID, api.FindOptions{})
	must(t, err)
	settings, err := s.Operator.Settings(ctx)
	must(t, err)
	if len(settings.Settings) < 20 {
		t.Errorf("%d settings", len(settings.Settings))
	}
	// But takes none of them for its own unless it says so.
	_, _, err = s.Operator.OpenSession(ctx, api.SessionRequest{Name: "agents"})
	wantCode(t, "the operator asks for a name that an agent took", err, api.CodeNameTaken)
	if !strings.Contains(err.Error(), agents.Creator) {
		t.Errorf("who opened it is not told: %v", err)
	}
	joined, created, err := s.Operator.OpenSession(ctx, api.SessionRequest{Name: "agents", Join: true})
	must(t, err)
	if created || joined.ID != agents.ID {
		t.Errorf("%v, %+v", created, joined)
	}
	_, _, err = s.Agent.OpenSession(ctx, api.SessionRequest{Name: "operators", Join: true})
	wantCode(t, "an agent joins the operator's", err, api.CodeNameTaken)
	must(t, s.Operator.CloseSession(ctx, "agents"))
}

func tokens(t *testing.T, s Subject) {
	ctx := within(t)
	x, y := open(t, s.Agent, api.SessionRequest{Name: "x"}), open(t, s.Agent, api.SessionRequest{Name: "y"})
	other := run(t, s.Agent, y.ID, sandboxtest.Print("y"))
	first, err := s.Agent.SessionToken(ctx, x.ID)
	must(t, err)
	if first.Scope != "session" || first.Session != x.ID || len(first.Token) < 40 {
		t.Errorf("%+v", first)
	}
	b := s.Token(first.Token)
	if b == nil {
		t.Fatal("the token is not known")
	}
	r := run(t, b, "x", sandboxtest.Print("hello"))
	ended(t, r, "ok")
	forbidden(t, b)
	hidden(t, b, y, other.ID)
	_, _, err = b.OpenSession(ctx, api.SessionRequest{})
	wantCode(t, "open another", err, api.CodeForbidden)
	_, _, err = b.OpenSession(ctx, api.SessionRequest{Name: "z"})
	wantCode(t, "open another by name", err, api.CodeForbidden)
	_, _, err = b.OpenSession(ctx, api.SessionRequest{Name: "y"})
	wantCode(t, "take another by name", err, api.CodeForbidden)
	_, _, err = b.OpenSession(ctx, api.SessionRequest{Name: y.ID, Join: true})
	wantCode(t, "take another by id", err, api.CodeForbidden)
	same, created, err := b.OpenSession(ctx, api.SessionRequest{Name: "x"})
	must(t, err)
	if created || same.ID != x.ID {
		t.Errorf("%v, %+v", created, same)
	}
	_, err = b.Run(ctx, "", code(sandboxtest.Print("x")), api.RunOptions{}, nil)
	wantCode(t, "a one shot", err, api.CodeForbidden)
	_, err = b.SessionToken(ctx, x.ID)
	wantCode(t, "a token by a token", err, api.CodeForbidden)
	l, err := b.Sessions(ctx, api.Page{})
	must(t, err)
	if len(l.Sessions) != 1 || l.Sessions[0].ID != x.ID {
		t.Errorf("%+v", l)
	}
	second, err := s.Agent.SessionToken(ctx, x.ID)
	must(t, err)
	if second.Token == first.Token {
		t.Error("the same token again")
	}
	refused := func(what, token string) {
		if b := s.Token(token); b != nil {
			if _, err := b.Session(ctx, x.ID); err == nil {
				t.Errorf("%s is taken", what)
			}
		}
	}
	refused("a replaced token", first.Token)
	refused("half a token", second.Token[:len(second.Token)-2])
	must(t, s.Agent.CloseSession(ctx, x.ID))
	refused("the token of a closed session", second.Token)
}

func status(t *testing.T, s Subject) {
	ctx := within(t)
	open(t, s.Operator, api.SessionRequest{})
	for _, b := range []api.Brig{s.Operator, s.Agent} {
		got, err := b.Status(ctx)
		must(t, err)
		if got.Version == "" || got.Started.IsZero() || got.Isolation.Configured == "" || got.Isolation.Resolved == "" || len(got.Layers) == 0 ||
			got.Isolation.Refusals == nil || got.Isolation.Warnings == nil || got.Problems == nil || got.Limit == 0 || got.Profile == "" {
			t.Errorf("%+v", got)
		}
		if operator := b == s.Operator; operator != (got.Pool != nil) || operator != (got.Sessions == 1) || operator != got.Observed {
			t.Errorf("operator %v: pool %s, %d sessions, observed %v", operator, got.Pool, got.Sessions, got.Observed)
		}
		list, err := b.Backends(ctx)
		must(t, err)
		if len(list.Backends) == 0 {
			t.Error("no backends")
		}
		for _, x := range list.Backends {
			if x.Usable == (x.Reason != "") || x.Usable && len(x.Layers) == 0 {
				t.Errorf("%+v", x)
			}
			if b == s.Agent && x.Endpoint != "" {
				t.Errorf("an agent is told of %s", x.Endpoint)
			}
		}
	}
	_, err := s.Agent.FindSelftest(ctx, "", api.FindOptions{})
	wantCode(t, "the latest self-test of none", err, api.CodeNotFound)
}
