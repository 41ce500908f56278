package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"brig/orchestrator/api"
)

func mustTime(t *testing.T) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, "2026-11-30T01:02:03Z")
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// fakeRun is a brig with one run, which goes on until it is cancelled.
type fakeRun struct {
	t         *testing.T
	posts     atomic.Int32
	cancelled chan struct{}
	gone      chan struct{} // the connection of the POST is
	once      sync.Once
	begin     func(s *stream)
}

func newFakeRun(t *testing.T, begin func(s *stream)) *fakeRun {
	return &fakeRun{t: t, cancelled: make(chan struct{}), gone: make(chan struct{}), begin: begin}
}

func (f *fakeRun) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/v1/run":
		f.posts.Add(1)
		var request api.RunRequest
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			f.t.Error(err)
		}
		s := newStream(f.t, w)
		if f.begin != nil {
			f.begin(s)
		}
		select {
		case <-f.cancelled:
			s.send(1000, api.EventStdout, api.Chunk{Text: "last words\n"})
			s.send(1001, api.EventEnd, api.Run{ID: "r1", State: api.RunEnded, Cause: "cancelled"})
		case <-r.Context().Done():
			close(f.gone)
		}
	case "/v1/runs/r1/cancel":
		f.once.Do(func() { close(f.cancelled) })
		json.NewEncoder(w).Encode(api.Run{ID: "r1", State: api.RunRunning})
	}
}

// TestRunGivenUp cancels the run by call, so that what it wrote and how it ended arrive.
func TestRunGivenUp(t *testing.T) {
	f := newFakeRun(t, func(s *stream) { s.send(1, api.EventStarted, api.Run{ID: "r1"}) })
	c, _ := brigAt(t, f)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out strings.Builder
	run, err := c.Run(ctx, "", api.RunRequest{Code: "x"}, api.RunOptions{}, func(e api.Event) error {
		if e.Kind == api.EventStarted {
			cancel()
		}
		if e.Kind == api.EventStdout {
			var chunk api.Chunk
			if err := json.Unmarshal(e.Data, &chunk); err != nil {
				return err
			}
			out.Write(chunk.Bytes())
		}
		return nil
	})
	if err != nil || run.Cause != "cancelled" || out.String() != "last words\n" {
		t.Errorf("%+v %v %q", run, err, out.String())
	}
}

// TestRunGivenUpEarly hangs up where there is no run to cancel yet, which cancels it.
func TestRunGivenUpEarly(t *testing.T) {
	f := newFakeRun(t, nil)
	c, _ := brigAt(t, f)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for f.posts.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	_, err := c.Run(ctx, "", api.RunRequest{Code: "x"}, api.RunOptions{}, nil)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	<-f.gone
}

func TestRunEmitFails(t *testing.T) {
	f := newFakeRun(t, func(s *stream) {
		s.send(1, api.EventStarted, api.Run{ID: "r1"})
		s.send(2, api.EventStdout, api.Chunk{Text: "a"})
	})
	c, _ := brigAt(t, f)
	mine := errors.New("nobody reads")
	run, err := c.Run(t.Context(), "", api.RunRequest{Code: "x"}, api.RunOptions{}, func(e api.Event) error {
		if e.Kind == api.EventStdout {
			return mine
		}
		return nil
	})
	if !errors.Is(err, mine) || run.Cause != "cancelled" {
		t.Errorf("%+v %v", run, err)
	}
}

// TestRunBrigDies breaks the answer off: nothing is asked a second time.
func TestRunBrigDies(t *testing.T) {
	for name, begin := range map[string]func(*stream){
		"after the run began": func(s *stream) { s.send(1, api.EventStarted, api.Run{ID: "r1"}); panic(http.ErrAbortHandler) },
		"before":              func(*stream) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeRun(t, begin)
			c, _ := brigAt(t, f)
			_, err := c.Run(t.Context(), "", api.RunRequest{Code: "x"}, api.RunOptions{Key: "k"}, nil)
			if !api.IsProblem(err, api.CodeInterruptedIO) {
				t.Errorf("%v", err)
			}
			if n := f.posts.Load(); n != 1 {
				t.Errorf("the code was handed over %d times", n)
			}
		})
	}
}

// TestRunSlowReader keeps the connection flowing while emit stands still, and counts
// what finds no room.
func TestRunSlowReader(t *testing.T) {
	const chunks, each = 24, 1 << 20
	sent := make(chan struct{})
	c, _ := brigAt(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s := newStream(t, w)
		s.send(1, api.EventStarted, api.Run{ID: "r1"})
		text := strings.Repeat("x", each)
		for i := range uint64(chunks) {
			s.send(2+i, api.EventStdout, api.Chunk{Text: text})
		}
		s.send(1000, api.EventEnd, api.Run{ID: "r1", State: api.RunEnded, Cause: "ok"})
		close(sent)
	}))
	var got, dropped int64
	last := api.EventKind("")
	_, err := c.Run(t.Context(), "", api.RunRequest{Code: "x"}, api.RunOptions{}, func(e api.Event) error {
		last = e.Kind
		switch e.Kind {
		case api.EventStarted:
			<-sent // all of it was written although nothing is read here
		case api.EventStdout:
			var chunk api.Chunk
			if err := json.Unmarshal(e.Data, &chunk); err != nil {
				return err
			}
			got += int64(len(chunk.Bytes()))
		case api.EventGap:
			var gap api.Gap
			if err := json.Unmarshal(e.Data, &gap); err != nil {
				return err
			}
			if !gap.Slow || gap.Stream != "stdout" {
				t.Errorf("%+v", gap)
			}
			dropped += gap.DroppedBytes
		}
		return nil
	})
	if err != nil || last != api.EventEnd {
		t.Errorf("%v, last %s", err, last)
	}
	if got+dropped != chunks*each || dropped == 0 {
		t.Errorf("%d arrived and %d were counted as dropped, of %d", got, dropped, chunks*each)
	}
}

// TestRunFirstAnswer takes the answer that an idempotency key got before.
func TestRunFirstAnswer(t *testing.T) {
	c, _ := brigAt(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Idempotency-Key") != "k" {
			t.Error("no key")
		}
		json.NewEncoder(w).Encode(api.Run{ID: "r1", State: api.RunEnded, Cause: "ok"})
	}))
	run, err := c.Run(t.Context(), "", api.RunRequest{Code: "x"}, api.RunOptions{Key: "k"}, nil)
	if err != nil || run.ID != "r1" {
		t.Errorf("%+v %v", run, err)
	}
}
