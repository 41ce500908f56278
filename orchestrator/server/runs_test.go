package server

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"brig/orchestrator/api"
	"brig/orchestrator/sandbox/sandboxtest"
)

func (w *world) run(t *testing.T, id string) api.Run {
	t.Helper()
	status, _, text := w.send(t, sent{method: "GET", path: "/v1/runs/" + id})
	if status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	return decodeInto[api.Run](t, text)
}

func TestRunAnswersAtItsEnd(t *testing.T) {
	w := opened(t)
	status, _, text := w.send(t, sent{method: "POST", path: "/v1/sessions/work/runs", body: code(t, sandboxtest.Print("hello"))})
	run := decodeInto[api.Run](t, text)
	if status != 200 || run.State != api.RunEnded || run.Stdout.Text != "hello\n" || run.Stamp == nil || run.Stamp.Approval != api.ApprovedByOperator {
		t.Errorf("%d %s", status, text)
	}
	status, _, text = w.send(t, sent{method: "POST", path: "/v1/run", body: code(t, sandboxtest.Print("once"))})
	if run := decodeInto[api.Run](t, text); status != 200 || run.Stdout.Text != "once\n" {
		t.Errorf("%d %s", status, text)
	}
}

func TestPreferences(t *testing.T) {
	w := opened(t)
	post := func(prefer string, steps ...sandboxtest.Step) (int, http.Header, api.Run) {
		status, header, text := w.send(t, sent{
			method: "POST", path: "/v1/sessions/work/runs", body: code(t, steps...), headers: map[string]string{"Prefer": prefer},
		})
		return status, header, decodeInto[api.Run](t, text)
	}
	status, header, run := post("respond-async", sandboxtest.Spin())
	if status != 202 || header.Get("Location") != "/v1/runs/"+run.ID || header.Get("Preference-Applied") != "respond-async" {
		t.Errorf("%d %v", status, header)
	}
	status, header, text := w.send(t, sent{method: "GET", path: "/v1/runs/" + run.ID, headers: map[string]string{"Prefer": "wait=1"}})
	if status != 200 || header.Get("Preference-Applied") != "wait=1" || decodeInto[api.Run](t, text).State != api.RunRunning {
		t.Errorf("%d %s", status, text)
	}
	if status, _, text := w.send(t, sent{method: "POST", path: "/v1/runs/" + run.ID + "/cancel"}); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	if got := w.run(t, run.ID); got.Cause != "cancelled" && got.Cause != "interrupted" {
		t.Errorf("cause %q", got.Cause)
	}
	status, header, run = post(`foo, Respond-Async; x=1, wait="30", wait=1`, sandboxtest.Print("x"))
	if status != 200 || run.State != api.RunEnded || header.Get("Preference-Applied") != "respond-async, wait=30" {
		t.Errorf("%d %v %v", status, run.State, header)
	}
}

func TestClosingThePostCancels(t *testing.T) {
	w := opened(t)
	for name, accept := range map[string]string{"plain": "application/json", "stream": eventStream} {
		t.Run(name, func(t *testing.T) {
			ctx, hangUp := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				if answer := w.request(ctx, t, sent{
					method: "POST", path: "/v1/sessions/work/runs", body: code(t, sandboxtest.Spin()), headers: map[string]string{"Accept": accept},
				}); answer != nil {
					<-ctx.Done()
				}
			}()
			var run api.Run
			await(t, "the run has begun", func() bool {
				_, _, text := w.send(t, sent{method: "GET", path: "/v1/sessions/work/runs?limit=1"})
				if all := decodeInto[api.RunList](t, text).Runs; len(all) == 1 && all[0].State == api.RunRunning {
					run = all[0]
				}
				return run.ID != ""
			})
			hangUp()
			<-done
			await(t, "the run has ended", func() bool { return w.run(t, run.ID).State == api.RunEnded })
			if got := w.run(t, run.ID); got.Cause != "cancelled" {
				t.Errorf("cause %q", got.Cause)
			}
		})
	}
}

func TestIdempotencyKey(t *testing.T) {
	w := opened(t)
	post := func(body string) (int, string) {
		status, _, text := w.send(t, sent{method: "POST", path: "/v1/sessions/work/runs", body: body, headers: map[string]string{"Idempotency-Key": "k 1"}})
		return status, text
	}
	_, first := post(code(t, sandboxtest.Print("a")))
	_, second := post(code(t, sandboxtest.Print("a")))
	if a, b := decodeInto[api.Run](t, first), decodeInto[api.Run](t, second); a.ID == "" || a.ID != b.ID || b.Stdout.Text != "a\n" {
		t.Errorf("%s\n%s", first, second)
	}
	if status, text := post(code(t, sandboxtest.Print("b"))); status != 422 || decodeInto[api.Problem](t, text).Code != api.CodeKeyReused {
		t.Errorf("%d %s", status, text)
	}
}

func TestEventsResume(t *testing.T) {
	w := opened(t)
	_, _, text := w.send(t, sent{
		method: "POST", path: "/v1/sessions/work/runs", headers: map[string]string{"Prefer": "respond-async"},
		body: code(t, sandboxtest.Print("one"), sandboxtest.Sleep(50*time.Millisecond), sandboxtest.Print("two"), sandboxtest.Sleep(50*time.Millisecond)),
	})
	run := decodeInto[api.Run](t, text)
	follow := func(ctx context.Context, last string) *bufio.Reader {
		headers := map[string]string{"Accept": eventStream}
		if last != "" {
			headers["Last-Event-ID"] = last
		}
		answer := w.request(ctx, t, sent{method: "GET", path: "/v1/runs/" + run.ID + "/events", headers: headers})
		if answer.StatusCode != 200 || answer.Header.Get("Content-Type") != eventStream {
			t.Fatal(answer.Status, answer.Header)
		}
		return bufio.NewReader(answer.Body)
	}
	ctx, hangUp := context.WithCancel(t.Context())
	r := follow(ctx, "")
	last, first, err := sse(t, r)
	if err != nil || first.Kind != api.EventStarted {
		t.Fatal(first.Kind, err)
	}
	hangUp() // which cancels nothing
	var kinds []api.EventKind
	out := ""
	for r = follow(t.Context(), last); ; {
		_, e, err := sse(t, r)
		if err != nil {
			if !eofOrBroken(err) {
				t.Error(err)
			}
			break
		}
		if e.ID <= first.ID {
			t.Errorf("event %d came again", e.ID)
		}
		kinds = append(kinds, e.Kind)
		if e.Kind == api.EventStdout {
			out += decodeInto[api.Chunk](t, string(e.Data)).Text
		}
	}
	if out != "one\ntwo\n" || len(kinds) == 0 || kinds[len(kinds)-1] != api.EventEnd {
		t.Errorf("%q %v", out, kinds)
	}
	if got := w.run(t, run.ID); got.Cause != "ok" {
		t.Errorf("cause %q", got.Cause)
	}
}

func TestStreamsAreBoundedAndEndWithBrig(t *testing.T) {
	w := opened(t)
	var streams []*bufio.Reader
	refused := 0
	for range maxStreamsPerWho + 3 {
		answer := w.request(t.Context(), t, sent{method: "GET", path: "/v1/events"})
		switch answer.StatusCode {
		case 200:
			streams = append(streams, bufio.NewReader(answer.Body))
		case 429:
			refused++
		default:
			t.Fatal(answer.Status)
		}
	}
	if refused != 3 || len(streams) != maxStreamsPerWho {
		t.Errorf("%d streams are open, %d were refused", len(streams), refused)
	}
	w.Drain()
	for _, r := range streams {
		for {
			_, e, err := sse(t, r)
			if err != nil {
				if !eofOrBroken(err) {
					t.Error(err)
				}
				break
			}
			_ = e
		}
	}
}

// A brig that ends asks a run to end and tells how it did on the stream of its POST: a
// stream that ended first would cancel the run by force, with the session's variables.
func TestEndingBrigTellsOfARun(t *testing.T) {
	w := opened(t)
	answer := w.request(t.Context(), t, sent{
		method: "POST", path: "/v1/sessions/work/runs", body: code(t, sandboxtest.Print("began"), sandboxtest.Spin()), headers: map[string]string{"Accept": "text/event-stream"},
	})
	stream := bufio.NewReader(answer.Body)
	closed := make(chan error, 1)
	var last api.Event
	for {
		_, e, err := sse(t, stream)
		if err != nil {
			if !eofOrBroken(err) {
				t.Error(err)
			}
			break
		}
		if last = e; e.Kind == api.EventStdout {
			w.Drain()
			go func() { closed <- w.options.Service.Close(context.WithoutCancel(t.Context())) }()
		}
	}
	if last.Kind != api.EventEnd {
		t.Fatalf("the stream ended with %s: %s", last.Kind, last.Data)
	}
	run := decodeInto[api.Run](t, string(last.Data))
	if run.Cause != "backend-lost" || run.Variables != "kept" || !strings.Contains(run.Detail, "keeps the session") {
		t.Errorf("cause %q, variables %q, %q", run.Cause, run.Variables, run.Detail)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}
