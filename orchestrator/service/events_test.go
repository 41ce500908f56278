package service_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"brig/orchestrator/api"
	"brig/orchestrator/config"
	"brig/orchestrator/sandbox"
	. "brig/orchestrator/sandbox/sandboxtest"
	"brig/orchestrator/service"
)

// events keeps what it is told.
type events struct {
	mu  sync.Mutex
	all []api.Event
}

func (c *events) emit(e api.Event) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, e)
	return nil
}

func eventOf(t *testing.T, l api.AuditLine) string {
	t.Helper()
	var data struct{ Event string }
	if err := json.Unmarshal(l.Data, &data); err != nil {
		t.Fatal(err)
	}
	return data.Event
}

// TestSlowFollower: whoever is too slow is told what is missing, and the run waits
// for nobody.
func TestSlowFollower(t *testing.T) {
	r := newRig(t, func(c *config.Config, _ *service.Options) {
		c.Limits.OutputKept, c.Limits.OutputLogged = 16<<20, 16<<20
	})
	b := r.agent("agent")
	x, _, err := b.OpenSession(t.Context(), api.SessionRequest{})
	if err != nil {
		t.Fatal(err)
	}
	began, err := b.Start(t.Context(), x.ID, api.RunRequest{Code: program(Print("began"), WaitFile("go"), Write(Stdout, Numbered, 14<<20))}, api.RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var got []api.Event
	waiting := true
	err = b.Follow(t.Context(), began.ID, 0, func(e api.Event) error {
		got = append(got, e)
		if e.Kind == api.EventStdout && waiting { // stand still until it is over
			waiting = false
			if _, err := b.WriteFile(t.Context(), x.ID, "go", strings.NewReader("x"), api.WriteOptions{}); err != nil {
				t.Error(err)
			}
			if r, err := b.FindRun(t.Context(), began.ID, api.FindOptions{Wait: service.WaitMost}); err != nil || r.State != api.RunEnded {
				t.Errorf("%+v, %v", r.State, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	resets, bytes := 0, 0
	for _, e := range got {
		bytes += len(e.Data)
		if e.Kind == api.EventReset {
			resets++
			var gap api.Reset
			if json.Unmarshal(e.Data, &gap) != nil || gap.Next <= gap.After+1 {
				t.Errorf("%s", e.Data)
			}
		}
	}
	last := got[len(got)-1]
	var end api.Run
	if err := json.Unmarshal(last.Data, &end); err != nil || last.Kind != api.EventEnd || end.Stdout.KeptBytes < 14<<20 {
		t.Errorf("%s, %v, %+v", last.Kind, err, end.Stdout.KeptBytes)
	}
	if held := bytes - len(last.Data); resets != 1 || held > service.RunStream+1<<20 {
		t.Errorf("%d resets, %d bytes", resets, held)
	}
	if n := r.Counts().Missed; n != 1 {
		t.Errorf("%d counted", n)
	}
	// The record is smaller, and says so.
	r.Forget(began.ID)
	kept, err := b.FindRun(t.Context(), began.ID, api.FindOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if o := kept.Stdout; o.TotalBytes != end.Stdout.TotalBytes || o.KeptBytes+o.DroppedBytes != o.TotalBytes || o.KeptBytes > 1<<20 || int64(len(o.Text)+len(o.Tail)) != o.KeptBytes || o.Tail == "" {
		t.Errorf("%d + %d of %d, text %d, tail %d", o.KeptBytes, o.DroppedBytes, o.TotalBytes, len(o.Text), len(o.Tail))
	}
}

// TestResolutionIsTold: where code would run is watched, told and written down.
func TestResolutionIsTold(t *testing.T) {
	r := newRig(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	seen := make(chan api.Status, 16)
	done := make(chan error, 1)
	go func() {
		done <- r.agent("agent").Watch(ctx, 0, func(e api.Event) error {
			var s api.Status
			if e.Kind == api.EventResolution {
				if err := json.Unmarshal(e.Data, &s); err != nil {
					return err
				}
				seen <- s
			}
			return nil
		})
	}()
	r.LookWhere()
	r.docker.SetUnavailable(&sandbox.Unavailable{Backend: sandbox.Docker, Code: "engine-absent", Reason: "the engine is gone"})
	r.await(t, "host")
	if s := <-seen; s.Isolation.Resolved != "host" || !s.Isolation.Degraded || len(s.Isolation.Refusals) != 1 || s.Pool != nil {
		t.Errorf("%+v", s.Isolation)
	}
	x, _, err := r.agent("agent").OpenSession(t.Context(), api.SessionRequest{})
	if err != nil || !x.Stamp.Degraded || x.Stamp.Backend != "host" {
		t.Errorf("%+v, %v", x.Stamp, err)
	}
	r.docker.SetUnavailable(nil)
	r.await(t, "docker")
	if s := <-seen; s.Isolation.Resolved != "docker" || s.Isolation.Degraded {
		t.Errorf("%+v", s.Isolation)
	}
	stop()
	if err := <-done; err == nil {
		t.Error("watching ended well")
	}
	lines, err := r.operator().Audit(t.Context(), api.AuditQuery{Kind: "resolution"})
	if err != nil || len(lines.Lines) != 3 || eventOf(t, lines.Lines[2]) != "found" || eventOf(t, lines.Lines[0]) != "changed" {
		t.Errorf("%+v, %v", lines, err)
	}
	// What ran on less than was configured was on the disk before it ran.
	lines, err = r.operator().Audit(t.Context(), api.AuditQuery{Kind: "session", Session: x.ID})
	if err != nil || len(lines.Lines) != 2 || eventOf(t, lines.Lines[1]) != "bound" {
		t.Errorf("%+v, %v", lines, err)
	}
}

// await looks until code would run there.
func (r *rig) await(t *testing.T, resolved string) {
	t.Helper()
	for r.Counts().Resolved != resolved {
		if t.Context().Err() != nil {
			t.Fatal("it never changed")
		}
		r.LookWhere()
	}
}

// TestRefusedWhereNothingMayRun: a refusal says what would have contained the code.
func TestRefusedWhereNothingMayRun(t *testing.T) {
	r := newRig(t, func(c *config.Config, _ *service.Options) { c.Execution.Fallback = config.None })
	r.docker.SetUnavailable(&sandbox.Unavailable{Backend: sandbox.Docker, Code: "engine-absent", Reason: "the engine is gone", Remedy: "start it"})
	b := r.agent("agent")
	_, _, err := b.OpenSession(t.Context(), api.SessionRequest{})
	var p *api.Problem
	if !errors.As(err, &p) || p.Code != api.CodeRefused || p.Isolation == nil || len(p.Isolation.Refusals) != 1 || p.Remedy == "" {
		t.Errorf("%+v", err)
	}
	if _, err := b.Run(t.Context(), "", api.RunRequest{Code: program(Print("x"))}, api.RunOptions{}, nil); !errors.Is(err, &api.Problem{Code: api.CodeRefused}) {
		t.Errorf("%v", err)
	}
	began, err := b.Start(t.Context(), "", api.RunRequest{Code: program(Print("x"))}, api.RunOptions{})
	if err == nil {
		t.Errorf("%+v", began)
	}
	runs, err := b.Runs(t.Context(), "", api.Page{})
	if err != nil || len(runs.Runs) != 2 || runs.Runs[0].Cause != "refused" || runs.Runs[0].Stamp == nil || runs.Runs[0].Stamp.Containment != "nothing ran" {
		t.Errorf("%+v, %v", runs, err)
	}
	status, err := b.Status(t.Context())
	if err != nil || status.Isolation.Resolved != "" || status.ToolsBacked || len(status.Isolation.Warnings) == 0 {
		t.Errorf("%+v, %v", status, err)
	}
}

// TestNothingAfterTheEnd: Close refuses what is new, answers what waits and ends
// every stream.
func TestNothingAfterTheEnd(t *testing.T) {
	r := newRig(t)
	b := r.agent("agent")
	x, _, err := b.OpenSession(t.Context(), api.SessionRequest{})
	if err != nil {
		t.Fatal(err)
	}
	ready := make(chan struct{})
	var wg sync.WaitGroup
	var run api.Run
	wg.Go(func() {
		var err error
		run, err = b.Run(t.Context(), x.ID, api.RunRequest{Code: program(Print("began"), Spin())}, api.RunOptions{}, func(e api.Event) error {
			if e.Kind == api.EventStdout {
				close(ready)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	c := &events{}
	wg.Go(func() {
		if err := b.Watch(t.Context(), 0, c.emit); err != nil {
			t.Error(err)
		}
	})
	<-ready
	r.end(t)
	wg.Wait()
	if run.Cause != "backend-lost" || !strings.Contains(run.Detail, "brig ended") {
		t.Errorf("%s: %s", run.Cause, run.Detail)
	}
	last := c.all[len(c.all)-1]
	shutdown := false
	for _, e := range c.all {
		shutdown = shutdown || e.Kind == api.EventShutdown
	}
	if !shutdown {
		t.Errorf("it was not told; the last is %+v", last)
	}
	_, _, err = b.OpenSession(t.Context(), api.SessionRequest{})
	if !errors.Is(err, &api.Problem{Code: api.CodeShuttingDown}) {
		t.Errorf("%v", err)
	}
	if _, err := b.Run(t.Context(), "", api.RunRequest{Code: "1"}, api.RunOptions{}, nil); !errors.Is(err, &api.Problem{Code: api.CodeShuttingDown}) {
		t.Errorf("%v", err)
	}
}

// A run that is cancelled while its sandbox is being made has been cancelled, and
// is no failure of brig's.
func TestCancelledBeforeItBegan(t *testing.T) {
	o := pretended(sandbox.Docker, "this")
	o.PrepareDelay = time.Hour
	r := (&house{dir: t.TempDir(), first: NewMemory(o)}).start(t)
	b := r.agent("agent")
	shot, err := b.Start(t.Context(), "", api.RunRequest{Code: program(Print("x"))}, api.RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := b.CancelRun(t.Context(), shot.ID)
	if err != nil || got.State != api.RunEnded || got.Cause != "cancelled" || got.Detail != "the agent cancelled it before it began" ||
		got.Stamp == nil || got.Stamp.Containment != "nothing ran" {
		t.Errorf("%+v, %+v, %v", got, got.Stamp, err)
	}
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if _, err := b.FindRun(ctx, "run-0000000000000000", api.FindOptions{}); !errors.Is(err, &api.Problem{Code: api.CodeDeadline}) {
		t.Errorf("a caller that has left: %v", err)
	}
	if n := r.Counts().StoreFailures; n != 0 {
		t.Errorf("%d failures of the store", n)
	}
}
