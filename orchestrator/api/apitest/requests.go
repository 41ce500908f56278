package apitest

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"brig/orchestrator/api"
	"brig/orchestrator/sandbox/sandboxtest"
)

func idempotency(t *testing.T, s Subject) {
	ctx := within(t)
	x := open(t, s.Agent, api.SessionRequest{})
	key := api.RunOptions{Key: "k-1"}
	first, err := s.Agent.Run(ctx, x.ID, code(sandboxtest.Print("once")), key, nil)
	must(t, err)
	again, err := s.Agent.Run(ctx, x.ID, code(sandboxtest.Print("once")), key, nil)
	must(t, err)
	if again.ID != first.ID || again.Stdout.Text != "once\n" {
		t.Errorf("%s again as %s: %+v", first.ID, again.ID, again)
	}
	c := newCollector()
	if _, err := s.Agent.Run(ctx, x.ID, code(sandboxtest.Print("once")), key, c.emit); err != nil {
		t.Error(err)
	}
	if events := c.all(); len(events) == 0 || events[len(events)-1].Kind != api.EventEnd {
		t.Errorf("%+v", events)
	}
	_, err = s.Agent.Run(ctx, x.ID, code(sandboxtest.Print("other")), key, nil)
	wantCode(t, "another request", err, api.CodeKeyReused)
	if got, err := s.Agent.Session(ctx, x.ID); err != nil || got.Runs != 1 {
		t.Errorf("%d runs, %v", got.Runs, err)
	}
	// While the first runs, waiting for the second would be waiting for the first.
	spin, err := s.Agent.Start(ctx, x.ID, code(sandboxtest.Spin()), api.RunOptions{Key: "k-2"})
	must(t, err)
	_, err = s.Agent.Run(ctx, x.ID, code(sandboxtest.Spin()), api.RunOptions{Key: "k-2"}, nil)
	wantCode(t, "the first runs", err, api.CodeKeyInUse)
	same, err := s.Agent.Start(ctx, x.ID, code(sandboxtest.Spin()), api.RunOptions{Key: "k-2"})
	must(t, err)
	if same.ID != spin.ID {
		t.Errorf("started twice: %s, %s", spin.ID, same.ID)
	}
	_, err = s.Agent.CancelRun(ctx, spin.ID)
	must(t, err)
	// Of many at once one runs.
	var wg sync.WaitGroup
	var mu sync.Mutex
	ids := map[string]bool{}
	for range 8 {
		wg.Go(func() {
			r, err := s.Agent.Start(ctx, x.ID, code(sandboxtest.Print("x")), api.RunOptions{Key: "k-3"})
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			ids[r.ID] = true
		})
	}
	wg.Wait()
	if len(ids) != 1 {
		t.Errorf("%d runs for one key", len(ids))
	}
	if s.Other != nil {
		y := open(t, s.Other, api.SessionRequest{})
		ended(t, first, "ok")
		if _, err := s.Other.Run(ctx, y.ID, code(sandboxtest.Print("mine")), key, nil); err != nil {
			t.Errorf("the key of another credential: %v", err)
		}
	}
}

func oneShot(t *testing.T, s Subject) {
	ctx := within(t)
	r, err := s.Agent.Run(ctx, "", api.RunRequest{
		Code: code(sandboxtest.ReadFile("in.txt")).Code, Files: []api.InlineFile{{Path: "in.txt", Text: "from the request"}},
	}, api.RunOptions{}, nil)
	must(t, err)
	ended(t, r, "ok")
	if !strings.Contains(r.Stdout.Text, "from the request") {
		t.Errorf("%+v", r)
	}
	for { // its session goes when it has been answered
		l, err := s.Agent.Sessions(ctx, api.Page{})
		must(t, err)
		if len(l.Sessions) == 0 {
			break
		}
		select {
		case <-ctx.Done():
			t.Fatalf("it stays: %+v", l)
		case <-time.After(10 * time.Millisecond):
		}
	}
	found, err := s.Agent.FindRun(ctx, r.ID, api.FindOptions{})
	must(t, err)
	ended(t, found, "ok")
	began, err := s.Agent.Start(ctx, "", code(sandboxtest.Print("x")), api.RunOptions{Key: "shot"})
	must(t, err)
	again, err := s.Agent.Start(ctx, "", code(sandboxtest.Print("x")), api.RunOptions{Key: "shot"})
	must(t, err)
	if began.ID != again.ID {
		t.Error("one key ran twice")
	}
	r, err = s.Agent.FindRun(ctx, began.ID, api.FindOptions{Wait: 40 * time.Second})
	must(t, err)
	ended(t, r, "ok")
}

func badRuns(t *testing.T, s Subject) {
	ctx := within(t)
	x := open(t, s.Agent, api.SessionRequest{})
	for what, q := range map[string]api.RunRequest{
		"no code":             {},
		"code and path":       {Code: "1", Path: "a.py"},
		"no program":          {Path: "a.txt"},
		"a negative timeout":  {Code: "1", TimeoutMs: -1},
		"a long timeout":      {Code: "1", TimeoutMs: 1 << 40},
		"a session inside":    {Code: "1", Session: &api.SessionRequest{}},
		"a zero in argv":      {Code: "1", Argv: []string{"a\x00b"}},
		"a file without name": {Code: "1", Files: []api.InlineFile{{Text: "x"}}},
	} {
		_, err := s.Agent.Run(ctx, x.ID, q, api.RunOptions{}, nil)
		wantCode(t, what, err, api.CodeInvalid)
	}
	_, err := s.Agent.Run(ctx, x.ID, api.RunRequest{Path: "missing.py"}, api.RunOptions{}, nil)
	wantCode(t, "a file that is not there", err, api.CodeNotFound)
	_, err = s.Agent.Run(ctx, "nobody", api.RunRequest{Code: "1"}, api.RunOptions{}, nil)
	wantCode(t, "a session that is not there", err, api.CodeNotFound)
	_, err = s.Agent.Run(ctx, x.ID, api.RunRequest{Code: "1"}, api.RunOptions{Key: strings.Repeat("k", 256)}, nil)
	wantCode(t, "a long key", err, api.CodeInvalid)
	_, err = s.Agent.FindRun(ctx, "run-0000000000000000", api.FindOptions{})
	wantCode(t, "a run that never was", err, api.CodeNotFound)
	wantCode(t, "follow it", s.Agent.Follow(ctx, "run-0000000000000000", 0, func(api.Event) error { return nil }), api.CodeNotFound)
	// A session takes so many and no more.
	var busy int
	for range 14 {
		if _, err := s.Agent.Start(ctx, x.ID, code(sandboxtest.Spin()), api.RunOptions{}); err != nil {
			wantCode(t, "too many runs", err, api.CodeBusy)
			busy++
		}
	}
	if busy != 5 {
		t.Errorf("%d of 14 were refused, want 5", busy)
	}
	must(t, s.Agent.CloseSession(ctx, x.ID))
}

func listOfRuns(t *testing.T, s Subject) {
	ctx := within(t)
	x, y := open(t, s.Agent, api.SessionRequest{}), open(t, s.Agent, api.SessionRequest{})
	var want []string
	for range 3 {
		want = append(want, run(t, s.Agent, x.ID, sandboxtest.Print("x")).ID)
	}
	run(t, s.Agent, y.ID, sandboxtest.Print("y"))
	first, err := s.Agent.Runs(ctx, x.ID, api.Page{Limit: 2})
	must(t, err)
	if len(first.Runs) != 2 || first.Next == "" || first.Runs[0].ID != want[2] || first.Runs[0].Stdout.Text != "" || first.Runs[0].Cause != "ok" || first.Runs[0].Stdout.TotalBytes != 2 {
		t.Fatalf("%+v", first)
	}
	second, err := s.Agent.Runs(ctx, x.ID, api.Page{Limit: 2, Cursor: first.Next})
	must(t, err)
	if len(second.Runs) != 1 || second.Next != "" || second.Runs[0].ID != want[0] {
		t.Errorf("%+v", second)
	}
	_, err = s.Agent.Runs(ctx, x.ID, api.Page{Cursor: "no cursor"})
	wantCode(t, "a wrong cursor", err, api.CodeInvalid)
	// What ran can be found when its session is closed.
	must(t, s.Agent.CloseSession(ctx, x.ID))
	r, err := s.Agent.FindRun(ctx, want[0], api.FindOptions{})
	must(t, err)
	ended(t, r, "ok")
}

func watch(t *testing.T, s Subject) {
	ctx := within(t)
	watching, stop := context.WithCancel(ctx)
	mine, others := newCollector(), newCollector()
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Agent.Watch(watching, 0, mine.emit) })
	if s.Other != nil {
		wg.Go(func() { _ = s.Other.Watch(watching, 0, others.emit) })
	}
	x := open(t, s.Agent, api.SessionRequest{Name: "seen"})
	mine.await(ctx, t, api.EventSession)
	r := run(t, s.Agent, x.ID, sandboxtest.Print("x"))
	must(t, s.Agent.CloseSession(ctx, x.ID))
	for closed := false; !closed; {
		mine.await(ctx, t, api.EventSession)
		events := mine.all()
		for _, e := range events {
			closed = closed || e.Kind == api.EventSession && decode[api.Session](t, e).State == "closed"
		}
	}
	stop()
	wg.Wait()
	events := mine.all()
	ordered(t, events)
	states := map[api.RunState]bool{}
	for _, e := range events {
		if e.Kind == api.EventRun {
			if got := decode[api.Run](t, e); got.ID == r.ID {
				states[got.State] = true
			}
		}
	}
	if !states[api.RunQueued] || !states[api.RunRunning] || !states[api.RunEnded] {
		t.Errorf("%v in %+v", states, events)
	}
	for _, e := range others.all() {
		if e.Kind == api.EventRun || e.Kind == api.EventSession {
			t.Errorf("another agent was told of %+v", e)
		}
	}
}
