// Package apitest holds every implementation of api.Brig against what its
// interface says: the service in the process, and the client that reaches one from
// outside. It is for tests only.
package apitest

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"brig/orchestrator/api"
	"brig/orchestrator/sandbox/sandboxtest"
)

// Subject is one living brig, seen with several credentials.
type Subject struct {
	Operator api.Brig
	Agent    api.Brig
	// Other is an agent with another credential; nil: there is only one for agents.
	Other api.Brig
	// Token is the brig as somebody with that session token sees it; an error or nil
	// where the token is not known.
	Token func(token string) api.Brig
}

// Test runs every case, each against a brig of its own.
func Test(t *testing.T, start func(t *testing.T) Subject) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, s Subject)
	}{
		{"sessions by name", sessionsByName},
		{"sessions without a name", sessionsUnnamed},
		{"pages of sessions", pagesOfSessions},
		{"bad session requests", badSessions},
		{"lifetime", lifetime},
		{"run", runs},
		{"run events", runEvents},
		{"exception", exception},
		{"start and follow", startAndFollow},
		{"cancel", cancel},
		{"the caller goes away", callerGoes},
		{"emit fails", emitFails},
		{"interrupt", interrupt},
		{"variables and reset", variables},
		{"idempotency", idempotency},
		{"one shot", oneShot},
		{"bad runs", badRuns},
		{"list of runs", listOfRuns},
		{"watch", watch},
		{"what an agent may", rights},
		{"what a token may", tokens},
		{"status", status},
		{"files", files},
		{"file names", fileNames},
		{"quota", quota},
		{"archives", archives},
		{"datasets", datasets},
		{"exports", exports},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, start(t))
		})
	}
}

// bound is how long anything here may take; it is never waited for.
const bound = 60 * time.Second

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	t.Cleanup(cancel)
	return ctx
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantCode checks that an error is a Problem of that code, in order.
func wantCode(t *testing.T, what string, err error, code api.Code) {
	t.Helper()
	var p *api.Problem
	if !errors.As(err, &p) {
		t.Errorf("%s: %v, want a problem %s", what, err, code)
		return
	}
	if p.Code != code || p.Type == "" || p.Title == "" || p.Status == 0 && code != api.CodeUnreachable {
		t.Errorf("%s: %+v, want %s", what, *p, code)
	}
}

func open(t *testing.T, b api.Brig, q api.SessionRequest) api.Session {
	t.Helper()
	s, created, err := b.OpenSession(within(t), q)
	must(t, err)
	if !created {
		t.Fatalf("session %s was there", s.Name)
	}
	return s
}

func code(steps ...sandboxtest.Step) api.RunRequest {
	return api.RunRequest{Code: string(sandboxtest.Program(steps).Source())}
}

func run(t *testing.T, b api.Brig, session string, steps ...sandboxtest.Step) api.Run {
	t.Helper()
	r, err := b.Run(within(t), session, code(steps...), api.RunOptions{}, nil)
	must(t, err)
	return r
}

// ended checks what every run that ended says of itself.
func ended(t *testing.T, r api.Run, cause string) {
	t.Helper()
	if r.State != api.RunEnded || r.Cause != cause || r.Ended == nil || r.ID == "" || r.Session == "" || len(r.CodeSHA256) != 64 {
		t.Errorf("%+v, want one that ended with %s", r, cause)
	}
	if r.Stamp == nil || r.Stamp.Line == "" || r.Stamp.Containment == "" || r.Stamp.Approval == "" {
		t.Errorf("run %s has no whole stamp: %+v", r.ID, r.Stamp)
	}
	if r.Displays == nil {
		t.Error("displays are null")
	}
	for _, o := range []api.Output{r.Stdout, r.Stderr} {
		if o.TotalBytes != o.KeptBytes+o.DroppedBytes {
			t.Errorf("the account does not add up: %+v", o)
		}
	}
}

// decode reads an event's data.
func decode[T any](t *testing.T, e api.Event) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(e.Data, &v); err != nil {
		t.Fatalf("%s event: %v in %s", e.Kind, err, e.Data)
	}
	return v
}

// ordered checks that the numbers of events grow.
func ordered(t *testing.T, events []api.Event) {
	t.Helper()
	last := uint64(0)
	for _, e := range events {
		if e.Kind == api.EventReset {
			continue
		}
		if e.ID <= last || e.Time.IsZero() {
			t.Errorf("event %d (%s) at %s after %d", e.ID, e.Kind, e.Time, last)
		}
		last = e.ID
	}
}
