package apitest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"brig/orchestrator/api"
	"brig/orchestrator/sandbox/sandboxtest"
)

func runs(t *testing.T, s Subject) {
	ctx := within(t)
	x := open(t, s.Agent, api.SessionRequest{})
	r := run(t, s.Agent, x.ID, sandboxtest.Print("hello"), sandboxtest.PrintErr("oops"))
	ended(t, r, "ok")
	if r.Stdout.Text != "hello\n" || r.Stderr.Text != "oops\n" || r.Stdout.KeptBytes != 6 || r.Variables != "kept" || r.Started == nil || r.Session != x.ID {
		t.Errorf("%+v", r)
	}
	if r.Stamp.Approval != api.ApprovedByCredential {
		t.Errorf("an agent's run was allowed by %s", r.Stamp.Approval)
	}
	found, err := s.Agent.FindRun(ctx, r.ID, api.FindOptions{})
	must(t, err)
	if found.Stdout.Text != "hello\n" || found.Cause != "ok" || found.Stamp == nil || found.Stamp.Line != r.Stamp.Line {
		t.Errorf("%+v", found)
	}
	got, err := s.Agent.Session(ctx, x.ID)
	must(t, err)
	if got.Runs != 1 || got.State != "idle" || got.Run != "" {
		t.Errorf("%+v", got)
	}
}

// collector keeps events.
type collector struct {
	mu     sync.Mutex
	events []api.Event
	seen   chan api.EventKind
}

func newCollector() *collector { return &collector{seen: make(chan api.EventKind, 1000)} }

func (c *collector) emit(e api.Event) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, e)
	select {
	case c.seen <- e.Kind:
	default:
	}
	return nil
}

func (c *collector) all() []api.Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]api.Event(nil), c.events...)
}

// await returns when an event of that kind has come.
func (c *collector) await(ctx context.Context, t *testing.T, kind api.EventKind) {
	t.Helper()
	for {
		select {
		case got := <-c.seen:
			if got == kind {
				return
			}
		case <-ctx.Done():
			t.Fatalf("no %s event came: %+v", kind, c.all())
		}
	}
}

func (c *collector) text(t *testing.T, kind api.EventKind) string {
	var out strings.Builder
	for _, e := range c.all() {
		if e.Kind == kind {
			out.WriteString(decode[api.Chunk](t, e).Text)
		}
	}
	return out.String()
}

func runEvents(t *testing.T, s Subject) {
	ctx := within(t)
	x := open(t, s.Agent, api.SessionRequest{})
	c := newCollector()
	r, err := s.Agent.Run(ctx, x.ID, code(sandboxtest.Print("grüße"), sandboxtest.Display("image/png", 100), sandboxtest.PrintErr("e")), api.RunOptions{}, c.emit)
	must(t, err)
	ended(t, r, "ok")
	events := c.all()
	ordered(t, events)
	if len(events) < 4 || events[0].Kind != api.EventStarted || events[len(events)-1].Kind != api.EventEnd {
		t.Fatalf("%+v", events)
	}
	if got := c.text(t, api.EventStdout); got != "grüße\n" {
		t.Errorf("stdout %q", got)
	}
	if began := decode[api.Run](t, events[0]); began.ID != r.ID || began.State != api.RunRunning || began.Started == nil {
		t.Errorf("%+v", began)
	}
	if end := decode[api.Run](t, events[len(events)-1]); end.ID != r.ID || end.Cause != "ok" || end.Stdout.Text != "grüße\n" {
		t.Errorf("%+v", end)
	}
	if len(r.Displays) != 1 || len(r.Displays[0].Data) != 2 || len(r.Displays[0].Data[1].Base64) < 70 || r.Displays[0].Data[1].MIME != "image/png" {
		t.Errorf("%+v", r.Displays)
	}
	late := newCollector()
	must(t, s.Agent.Follow(ctx, r.ID, events[1].ID, late.emit))
	if got := late.all(); len(got) != len(events)-2 || got[0].ID != events[2].ID {
		t.Errorf("after %d: %+v", events[1].ID, got)
	}
}

func exception(t *testing.T, s Subject) {
	x := open(t, s.Agent, api.SessionRequest{})
	r := run(t, s.Agent, x.ID, sandboxtest.Raise("ValueError", "no"))
	ended(t, r, "exception")
	if r.Exception == nil || r.Exception.Name != "ValueError" || r.Exception.Message != "no" || r.Exception.Traceback == "" {
		t.Errorf("%+v", r.Exception)
	}
	r, err := s.Agent.Run(within(t), x.ID, api.RunRequest{Code: code(sandboxtest.Exit(3)).Code, Once: true}, api.RunOptions{}, nil)
	must(t, err)
	ended(t, r, "exit")
	if r.ExitStatus == nil || *r.ExitStatus != 3 || r.Variables != "ended" {
		t.Errorf("%+v", r)
	}
	r, err = s.Agent.Run(within(t), x.ID, api.RunRequest{Code: code(sandboxtest.Spin()).Code, TimeoutMs: 200}, api.RunOptions{}, nil)
	must(t, err)
	ended(t, r, "timeout")
}

func startAndFollow(t *testing.T, s Subject) {
	ctx := within(t)
	x := open(t, s.Agent, api.SessionRequest{})
	began, err := s.Agent.Start(ctx, x.ID, code(sandboxtest.Print("began"), sandboxtest.Sleep(300*time.Millisecond), sandboxtest.Print("over")), api.RunOptions{})
	must(t, err)
	if began.ID == "" || began.State == api.RunEnded || began.Session != x.ID {
		t.Errorf("%+v", began)
	}
	waiting, err := s.Agent.Start(ctx, x.ID, code(sandboxtest.Print("second")), api.RunOptions{})
	must(t, err)
	if waiting.State != api.RunQueued {
		t.Errorf("the second run is %s", waiting.State)
	}
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			c := newCollector()
			if err := s.Agent.Follow(ctx, began.ID, 0, c.emit); err != nil {
				t.Error(err)
			}
			if got := c.text(t, api.EventStdout); got != "began\nover\n" {
				t.Errorf("%q", got)
			}
		})
	}
	wg.Wait()
	r, err := s.Agent.FindRun(ctx, waiting.ID, api.FindOptions{Wait: 40 * time.Second})
	must(t, err)
	ended(t, r, "ok")
	if r.Stdout.Text != "second\n" || r.QueuedMs <= 0 {
		t.Errorf("%+v", r)
	}
	// The end of a follower's context ends its following and nothing else.
	spin, err := s.Agent.Start(ctx, x.ID, code(sandboxtest.Print("began"), sandboxtest.Spin()), api.RunOptions{})
	must(t, err)
	short, stop := context.WithCancel(ctx)
	err = s.Agent.Follow(short, spin.ID, 0, func(e api.Event) error {
		if e.Kind == api.EventStdout {
			stop()
		}
		return nil
	})
	stop()
	if err == nil {
		t.Error("following ended well although the run goes on")
	}
	if r, err = s.Agent.FindRun(ctx, spin.ID, api.FindOptions{}); err != nil || r.State != api.RunRunning {
		t.Errorf("%+v, %v", r, err)
	}
	r, err = s.Agent.CancelRun(ctx, spin.ID)
	must(t, err)
	ended(t, r, "cancelled")
}

func cancel(t *testing.T, s Subject) {
	ctx := within(t)
	x := open(t, s.Agent, api.SessionRequest{})
	spin, err := s.Agent.Start(ctx, x.ID, code(sandboxtest.Spin()), api.RunOptions{})
	must(t, err)
	queued, err := s.Agent.Start(ctx, x.ID, code(sandboxtest.Print("never")), api.RunOptions{})
	must(t, err)
	r, err := s.Agent.CancelRun(ctx, queued.ID)
	must(t, err)
	ended(t, r, "cancelled")
	if r.Started != nil || r.Stdout.Text != "" {
		t.Errorf("it ran: %+v", r)
	}
	r, err = s.Agent.CancelRun(ctx, spin.ID)
	must(t, err)
	ended(t, r, "cancelled")
	_, err = s.Agent.CancelRun(ctx, spin.ID)
	wantCode(t, "cancel what has ended", err, api.CodeNotRunning)
	_, err = s.Agent.CancelRun(ctx, "run-0000000000000000")
	wantCode(t, "cancel what never was", err, api.CodeNotFound)
}

func callerGoes(t *testing.T, s Subject) {
	ctx := within(t)
	x := open(t, s.Agent, api.SessionRequest{})
	leaving, leave := context.WithCancel(ctx)
	id := ""
	_, _ = s.Agent.Run(leaving, x.ID, code(sandboxtest.Print("began"), sandboxtest.Spin()), api.RunOptions{}, func(e api.Event) error {
		if e.Kind == api.EventStarted {
			id = decode[api.Run](t, e).ID
		}
		if e.Kind == api.EventStdout {
			leave()
		}
		return nil
	})
	leave()
	r, err := s.Agent.FindRun(ctx, id, api.FindOptions{Wait: 40 * time.Second})
	must(t, err)
	ended(t, r, "cancelled")
	ended(t, run(t, s.Agent, x.ID, sandboxtest.Print("next")), "ok")
}

var errEnough = errors.New("enough")

func emitFails(t *testing.T, s Subject) {
	x := open(t, s.Agent, api.SessionRequest{})
	r, err := s.Agent.Run(within(t), x.ID, code(sandboxtest.Print("began"), sandboxtest.Spin()), api.RunOptions{}, func(e api.Event) error {
		if e.Kind == api.EventStdout {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		t.Errorf("%v", err)
	}
	ended(t, r, "cancelled")
}

func interrupt(t *testing.T, s Subject) {
	ctx := within(t)
	x := open(t, s.Agent, api.SessionRequest{})
	wantCode(t, "interrupt nothing", s.Agent.Interrupt(ctx, x.ID), api.CodeNotRunning)
	began, err := s.Agent.Start(ctx, x.ID, code(sandboxtest.Print("began"), sandboxtest.Spin()), api.RunOptions{})
	must(t, err)
	c := newCollector()
	done := make(chan error, 1)
	go func() { done <- s.Agent.Follow(ctx, began.ID, 0, c.emit) }()
	c.await(ctx, t, api.EventStdout)
	must(t, s.Agent.Interrupt(ctx, x.ID))
	must(t, <-done)
	r, err := s.Agent.FindRun(ctx, began.ID, api.FindOptions{Wait: 40 * time.Second})
	must(t, err)
	ended(t, r, "interrupted")
}
