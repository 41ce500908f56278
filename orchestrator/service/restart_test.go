package service_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"brig/orchestrator/api"
	"brig/orchestrator/sandbox"
	. "brig/orchestrator/sandbox/sandboxtest"
	"brig/orchestrator/store"
)

// crash ends a brig as a kill would, as far as anybody else can tell.
func (r *rig) crash(t testing.TB) {
	t.Helper()
	r.closeOnce.Do(func() {
		if err := errors.Join(r.store.Close(), r.audit.Close(), r.own.Close()); err != nil {
			t.Error(err)
		}
		// What a kill would have ended must not reach for what the next brig takes over.
		r.docker.SetUnavailable(&sandbox.Unavailable{Backend: sandbox.Docker, Code: "engine-absent", Reason: "this brig was killed"})
		r.docker.Crash()
		t.Cleanup(func() { // what a kill would have ended
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			_ = r.Close(ctx) // its store and its owner are gone
		})
	})
}

func TestGoesOnAfterACrash(t *testing.T) {
	h := &house{dir: t.TempDir()}
	first := h.start(t)
	b := first.agent("agent")
	x, _, err := b.OpenSession(t.Context(), api.SessionRequest{Name: "a", LifetimeSeconds: 3600, Limits: &api.LimitsRequest{Processes: 20}})
	if err != nil {
		t.Fatal(err)
	}
	set, err := b.Run(t.Context(), "a", api.RunRequest{Code: program(Set("x", 41), Print("set"))}, api.RunOptions{Key: "k"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	token, err := b.SessionToken(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	spin, err := b.Start(t.Context(), "a", api.RunRequest{Code: program(Print("began"), Spin())}, api.RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	waiting, err := b.Start(t.Context(), "a", api.RunRequest{Code: program(Print("never"))}, api.RunOptions{Key: "waiting"})
	if err != nil {
		t.Fatal(err)
	}
	await(t, b, spin.ID, api.RunRunning)
	shot, err := b.Start(t.Context(), "", api.RunRequest{Code: program(Spin())}, api.RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	await(t, b, shot.ID, api.RunRunning)
	first.crash(t)

	second := h.start(t)
	b = second.agent("agent")
	got, err := b.Session(t.Context(), "a") // waits until it has been taken over
	if err != nil {
		t.Fatal(err)
	}
	if got.ID != x.ID || got.State != "idle" || got.Creator != "agent" || got.Limits.Processes != 20 || got.Expires == nil ||
		got.Expires.Sub(*x.Expires).Abs() > time.Second || got.Runs != 2 || !strings.Contains(got.Note, spin.ID) || got.Stamp.Containment != "contained" {
		t.Errorf("%+v", got)
	}
	if _, err := second.agent("other").Session(t.Context(), "a"); !errors.Is(err, &api.Problem{Code: api.CodeNotFound}) {
		t.Errorf("another agent: %v", err)
	}
	if id, ok := second.SessionOf(token.Token); !ok || id != x.ID {
		t.Errorf("the token is for %q, %v", id, ok)
	}
	if list, err := b.Variables(t.Context(), "a"); err != nil || len(list.Variables) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	for id, want := range map[string]string{spin.ID: "its end was not seen", waiting.ID: "never began", shot.ID: "its end was not seen"} {
		r, err := b.FindRun(t.Context(), id, api.FindOptions{})
		if err != nil {
			t.Errorf("%s: %v", id, err)
			continue
		}
		if r.State != api.RunEnded || r.Cause != "backend-lost" || !strings.Contains(r.Detail, want) || r.Stamp == nil || r.Stamp.Line == "" {
			t.Errorf("%+v, %+v", r, r.Stamp)
		}
	}
	if r, err := b.FindRun(t.Context(), set.ID, api.FindOptions{}); err != nil || r.Cause != "ok" || r.Stdout.Text != "set\n" {
		t.Errorf("%+v, %v", r, err)
	}
	// What has a key is not executed again, whatever became of it.
	again, err := b.Run(t.Context(), "a", api.RunRequest{Code: program(Set("x", 41), Print("set"))}, api.RunOptions{Key: "k"}, nil)
	if err != nil || again.ID != set.ID {
		t.Errorf("%+v, %v", again, err)
	}
	if r, err := b.Run(t.Context(), "a", api.RunRequest{Code: program(Print("never"))}, api.RunOptions{Key: "waiting"}, nil); err != nil || r.ID != waiting.ID {
		t.Errorf("%+v, %v", r, err)
	}
	c := &events{}
	if err := b.Follow(t.Context(), set.ID, 3, c.emit); err != nil || len(c.all) != 2 || c.all[0].Kind != api.EventReset || c.all[1].Kind != api.EventEnd {
		t.Errorf("%+v, %v", c.all, err)
	}
	// The session of the one shot has ended with its brig.
	if l, err := b.Sessions(t.Context(), api.Page{}); err != nil || len(l.Sessions) != 1 {
		t.Errorf("%+v, %v", l, err)
	}
	second.end(t)

	// Nor does it go when brig ends well.
	third := h.start(t)
	b = third.agent("agent")
	if _, created, err := b.OpenSession(t.Context(), api.SessionRequest{Name: "a"}); err != nil || created {
		t.Errorf("%v, %v", created, err)
	}
	if err := b.CloseSession(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	if _, ok := third.SessionOf(token.Token); ok {
		t.Error("the token of a closed session is known")
	}
	lines, err := third.operator().Audit(t.Context(), api.AuditQuery{Page: api.Page{Limit: 1000}, Session: x.ID})
	if err != nil || !lines.Holds {
		t.Fatalf("%+v, %v", lines, err)
	}
	said := map[string]int{}
	for _, l := range lines.Lines {
		said[l.Kind+" "+eventOf(t, l)]++
	}
	for what, n := range map[string]int{
		"session opened": 1, "session adopted": 2, "session closed": 1, "token made": 1, "run accepted": 3, "run ended": 3,
	} {
		if said[what] != n {
			t.Errorf("%d lines say %s, want %d: %v", said[what], what, n, said)
		}
	}
}

// await waits until a run stands so.
func await(t *testing.T, b api.Brig, run string, state api.RunState) {
	t.Helper()
	for {
		r, err := b.FindRun(t.Context(), run, api.FindOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if r.State == state {
			return
		}
		if r.State == api.RunEnded {
			t.Fatalf("it has ended: %+v", r)
		}
		time.Sleep(time.Millisecond)
	}
}

// A run that had ended when brig was killed, and whose end was not on record, is
// told from one that never began: something did run.
func TestLostEndIsNoLostBegin(t *testing.T) {
	h := &house{dir: t.TempDir()}
	first := h.start(t)
	b := first.agent("agent")
	x, _, err := b.OpenSession(t.Context(), api.SessionRequest{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	summary := func(id string) []byte { return []byte(`{"id":"` + id + `","session":"` + x.ID + `","state":"queued"}`) }
	for _, id := range []string{"run-a", "run-b"} {
		row := store.Run{ID: id, Session: x.ID, Name: "a", Creator: "agent", Caller: "agent", Created: time.Now(), Summary: summary(id)}
		if _, err := first.store.AddRun(t.Context(), row, nil, false); err != nil {
			t.Fatal(err)
		}
	}
	at := time.Now()
	if err := errors.Join(first.store.Begin(t.Context(), x.ID, "run-a", at), first.store.End(t.Context(), x.ID, at)); err != nil {
		t.Fatal(err)
	}
	first.crash(t)
	b = h.start(t).agent("agent")
	if r, err := b.FindRun(t.Context(), "run-a", api.FindOptions{}); err != nil || r.Started == nil || !strings.Contains(r.Detail, "it had begun") ||
		r.Stamp == nil || r.Stamp.Containment != "containment unknown" || !r.Stdout.Incomplete {
		t.Errorf("%+v, %+v, %v", r, r.Stamp, err)
	}
	if r, err := b.FindRun(t.Context(), "run-b", api.FindOptions{}); err != nil || r.Started != nil || !strings.Contains(r.Detail, "never began") ||
		r.Stamp == nil || r.Stamp.Containment != "nothing ran" {
		t.Errorf("%+v, %+v, %v", r, r.Stamp, err)
	}
}
