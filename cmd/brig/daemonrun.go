package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"brig/orchestrator"
	"brig/orchestrator/api"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// This file runs a program in the brig that stays. Its code is handed over once:
// whatever happens to the answer, it is not run again, neither there nor here.

// there is a session of the brig that stays, or, without a name and files, one that
// it makes for this run alone.
type there struct {
	client *api.Client
	ask    api.SessionRequest
	once   bool // a session for this run alone, which ends with it
	named  bool // a session of the user's, which stays
	made   bool // it was opened for this run

	mu      sync.Mutex
	session api.Session
	now     orchestrator.Resolution
	seen    sandbox.Posture
	opened  bool

	begun  atomic.Bool
	before map[string]api.File
}

// open opens the session where there is to be one before the run.
func (t *there) open(ctx context.Context) error {
	if t.once {
		return nil
	}
	s, created, err := t.client.OpenSession(ctx, t.ask)
	if err != nil {
		return asRefused(err)
	}
	t.made = created
	return t.learn(s)
}

// learn takes what a session says of itself.
func (t *there) learn(s api.Session) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.session, t.opened = s, true
	err := errors.Join(json.Unmarshal(s.Posture, &t.seen), json.Unmarshal(s.Resolution, &t.now))
	if err != nil {
		return fmt.Errorf("read what contains session %s: %w", s.ID, err)
	}
	return nil
}

func (t *there) known() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.opened
}

func (t *there) resolution() orchestrator.Resolution {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.now
}

func (t *there) posture() sandbox.Posture {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.seen
}

// id is the session's, empty where it is not known yet.
func (t *there) id() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.session.ID
}

func (t *there) run(ctx context.Context, r orchestrator.RunRequest, begin func(), emit func(wire.Event) error) (orchestrator.Result, error) {
	request := api.RunRequest{
		Filename: r.Filename, Argv: r.Argv, Once: r.Once,
		TimeoutMs: (r.Timeout + time.Millisecond - 1).Milliseconds(),
	}
	switch {
	case len(r.Source) == 0:
		request.Code = "\n" // no code is a program as well
	case utf8.Valid(r.Source):
		request.Code = string(r.Source)
	default:
		request.CodeBase64 = r.Source
	}
	session := t.id()
	if t.once {
		request.Session = &t.ask
	}
	run, err := t.client.Run(ctx, session, request, api.RunOptions{}, func(e api.Event) error {
		return t.event(e, begin, emit)
	})
	if err != nil && run.Cause == "" {
		if t.made && !t.begun.Load() && api.IsProblem(err, api.CodeTooMany) {
			t.named = false // nothing ran in it: it goes with this run
		}
		return orchestrator.Result{}, t.broke(asRefused(err))
	}
	return resultOf(run), err
}

// event passes one event on.
func (t *there) event(e api.Event, begin func(), emit func(wire.Event) error) error {
	switch e.Kind {
	case api.EventSession:
		var s api.Session
		if err := json.Unmarshal(e.Data, &s); err != nil {
			return fmt.Errorf("read what contains the run: %w", err)
		}
		if t.known() {
			return nil
		}
		if err := t.learn(s); err != nil {
			return err
		}
		begin()
		return nil
	case api.EventStarted:
		t.begun.Store(true)
		return nil
	}
	w, output, err := wireEvent(e)
	if err != nil || !output {
		return err
	}
	return emit(w)
}

// broke says what is not known when the answer broke off.
func (t *there) broke(err error) error {
	var problem *api.Problem
	if !errors.As(err, &problem) || problem.Code != api.CodeInterruptedIO && problem.Code != api.CodeUnreachable {
		return err
	}
	what := "whether the code has begun is not known"
	if t.begun.Load() {
		what = "the code had begun, and how it ended is not known"
	}
	return &failure{
		Code: "backend-lost", Message: "the brig that ran the code went away: " + what + "; it was not run again",
		Remedy: "brig status", Exit: exitFailed, err: err,
	}
}

func (t *there) interrupt(ctx context.Context) error {
	if !t.begun.Load() {
		return errNotBegun
	}
	return t.client.Interrupt(ctx, t.id())
}

func (t *there) close(ctx context.Context) error {
	id := t.id()
	if t.once || t.named || id == "" {
		return nil
	}
	err := t.client.CloseSession(ctx, id)
	if api.IsProblem(err, api.CodeNotFound) || api.IsProblem(err, api.CodeGone) || api.IsProblem(err, api.CodeUnreachable) {
		return nil // it is gone, or goes with its lifetime
	}
	return err
}

// wireEvent is an event as the sink takes it; output: it is one for the sink.
func wireEvent(e api.Event) (w wire.Event, output bool, err error) {
	switch e.Kind {
	case api.EventStdout, api.EventStderr:
		var c api.Chunk
		err = json.Unmarshal(e.Data, &c)
		w = wire.Event{Kind: wire.EventStdout, Data: c.Bytes(), Late: c.Late}
		if e.Kind == api.EventStderr {
			w.Kind = wire.EventStderr
		}
	case api.EventGap:
		var g api.Gap
		err = json.Unmarshal(e.Data, &g)
		w = wire.Event{Kind: wire.EventGap, Stream: wire.StreamStdout, Dropped: g.DroppedBytes, Slow: g.Slow}
		if g.Stream == "stderr" {
			w.Stream = wire.StreamStderr
		}
	case api.EventDisplay:
		var d api.Display
		err = json.Unmarshal(e.Data, &d)
		w = wire.Event{Kind: wire.EventDisplay, Display: displayOf(d)}
	default:
		return w, false, nil
	}
	if err != nil {
		return w, false, fmt.Errorf("read an event of the run: %w", err)
	}
	return w, true, nil
}

func displayOf(d api.Display) *wire.Display {
	out := &wire.Display{Role: d.Role}
	for _, part := range d.Data {
		data := part.Base64
		if data == nil {
			data = []byte(part.Text)
		}
		out.Data = append(out.Data, wire.Part{MIME: part.MIME, Data: data})
	}
	return out
}
