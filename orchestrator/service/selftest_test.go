package service_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"brig/orchestrator/api"
	"brig/orchestrator/config"
	"brig/orchestrator/sandbox"
	. "brig/orchestrator/sandbox/sandboxtest"
	"brig/orchestrator/service"
)

func TestSelftest(t *testing.T) {
	h := &house{dir: t.TempDir()}
	going, fail := make(chan struct{}), false
	edit := func(_ *config.Config, o *service.Options) {
		o.Selftest = func(ctx context.Context, q api.SelftestRequest, progress func(api.SelftestProgress)) (api.Selftest, error) {
			progress(api.SelftestProgress{Done: 1, Total: 2, Probe: "files-read-home", Verdict: "blocked"})
			select {
			case <-going:
			case <-ctx.Done():
				return api.Selftest{}, context.Cause(ctx)
			}
			if fail {
				return api.Selftest{}, errors.New("no instance could be started")
			}
			return api.Selftest{Backend: q.Backend, Holds: "held", Sentence: "all that is promised holds", Report: json.RawMessage(`{"rows":[]}`)}, nil
		}
		o.Stale = func(api.Selftest) string { return "the machine was started since" }
	}
	r := h.start(t, edit)
	operator, agent := r.operator(), r.agent("agent")
	_, err := operator.Selftest(t.Context(), api.SelftestRequest{Only: []string{"../x"}})
	wantCode(t, err, api.CodeInvalid)
	began, err := operator.Selftest(t.Context(), api.SelftestRequest{})
	if err != nil || began.State != "running" || began.Backend != "docker" || began.ID == "" {
		t.Fatalf("%+v, %v", began, err)
	}
	_, err = operator.Selftest(t.Context(), api.SelftestRequest{})
	wantCode(t, err, api.CodeConflict)
	c := &events{}
	done := make(chan error, 1)
	go func() { done <- agent.FollowSelftest(t.Context(), began.ID, 0, c.emit) }()
	close(going)
	got, err := agent.FindSelftest(t.Context(), began.ID, api.FindOptions{Wait: service.WaitMost})
	if err != nil || got.State != "ended" || got.Holds != "held" || got.Report == nil || got.Ended == nil || got.Stale == "" || got.Progress.Done != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if err := <-done; err != nil || len(c.all) != 2 || c.all[0].Kind != api.EventProgress || c.all[1].Kind != api.EventVerdict {
		t.Errorf("%+v, %v", c.all, err)
	}
	status, err := agent.Status(t.Context())
	if err != nil || status.Selftest == nil || status.Selftest.ID != began.ID || status.Selftest.Report != nil {
		t.Errorf("%+v, %v", status.Selftest, err)
	}

	fail = true
	second, err := operator.Selftest(t.Context(), api.SelftestRequest{Backend: "host"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err = agent.FindSelftest(t.Context(), second.ID, api.FindOptions{Wait: service.WaitMost}); err != nil || got.State != "failed" || got.Problem == "" {
		t.Errorf("%+v, %v", got, err)
	}
	going = make(chan struct{})
	lost, err := operator.Selftest(t.Context(), api.SelftestRequest{Backend: "host"})
	if err != nil {
		t.Fatal(err)
	}
	r.crash(t)

	r = h.start(t, edit)
	agent = r.agent("agent")
	list, err := agent.Selftests(t.Context(), api.Page{})
	if err != nil || len(list.Selftests) != 3 || list.Selftests[0].ID != lost.ID || list.Selftests[0].State != "failed" || list.Selftests[2].Report != nil {
		t.Errorf("%+v, %v", list, err)
	}
	old, err := agent.FindSelftest(t.Context(), began.ID, api.FindOptions{})
	if err != nil || old.Holds != "held" || string(old.Report) != `{"rows":[]}` {
		t.Errorf("%+v, %v", old, err)
	}
	c = &events{}
	if err := agent.FollowSelftest(t.Context(), began.ID, 0, c.emit); err != nil || len(c.all) != 2 || c.all[0].Kind != api.EventReset || c.all[1].Kind != api.EventVerdict {
		t.Errorf("%+v, %v", c.all, err)
	}
}

func wantCode(t *testing.T, err error, code api.Code) {
	t.Helper()
	if !errors.Is(err, &api.Problem{Code: code}) {
		t.Errorf("%v, want a problem %s", err, code)
	}
}

func TestCounts(t *testing.T) {
	r := newRig(t)
	b := r.agent("agent")
	x, _, err := b.OpenSession(t.Context(), api.SessionRequest{})
	if err != nil {
		t.Fatal(err)
	}
	spin, err := b.Start(t.Context(), x.ID, api.RunRequest{Code: program(Spin())}, api.RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	await(t, b, spin.ID, api.RunRunning)
	queued, err := b.Start(t.Context(), x.ID, api.RunRequest{Code: program(Print("x"))}, api.RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	docker := service.SessionKind{Backend: sandbox.Docker}
	if c := r.Counts(); c.Running != 1 || c.Queued != 1 || c.Sessions[docker] != 1 || c.Opened[docker] != 1 || c.Open[sandbox.Docker].Count != 1 {
		t.Errorf("%+v", c)
	}
	if _, err := b.CancelRun(t.Context(), spin.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := b.FindRun(t.Context(), queued.ID, api.FindOptions{Wait: service.WaitMost}); err != nil {
		t.Fatal(err)
	}
	if err := b.CloseSession(t.Context(), x.ID); err != nil {
		t.Fatal(err)
	}
	c := r.Counts()
	ok, cancelled := service.RunKind{Backend: sandbox.Docker, Cause: sandbox.OK}, service.RunKind{Backend: sandbox.Docker, Cause: sandbox.Cancelled}
	if c.Running != 0 || c.Queued != 0 || c.Sessions[docker] != 0 || c.Runs[ok] != 1 || c.Runs[cancelled] != 1 || c.Closed["asked"] != 1 || c.Elapsed[sandbox.Docker].Count != 2 {
		t.Errorf("%+v", c)
	}
}

// TestNothingIsLeftRunning: a brig that has ended has no goroutine.
func TestNothingIsLeftRunning(t *testing.T) {
	CheckGoroutines(t)
	r := newRig(t)
	b := r.agent("agent")
	x, _, err := b.OpenSession(t.Context(), api.SessionRequest{})
	if err != nil {
		t.Fatal(err)
	}
	watching, stop := context.WithCancel(t.Context())
	for range 20 {
		if _, err := b.Run(t.Context(), x.ID, api.RunRequest{Code: program(Print("x"))}, api.RunOptions{}, func(api.Event) error { return nil }); err != nil {
			t.Fatal(err)
		}
		go func() { _ = b.Watch(watching, 0, func(api.Event) error { return nil }) }()
	}
	if err := b.CloseSession(t.Context(), x.ID); err != nil {
		t.Fatal(err)
	}
	stop()
}
