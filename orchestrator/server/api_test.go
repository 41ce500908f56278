package server

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"brig/orchestrator/api"
	"brig/orchestrator/sandbox/sandboxtest"
)

// sent is one request of the operator's through the port.
type sent struct {
	method, path, body string
	headers            map[string]string
}

func (w *world) request(ctx context.Context, t *testing.T, a sent) *http.Response {
	t.Helper()
	var body io.Reader
	if a.body != "" {
		body = strings.NewReader(a.body)
	}
	r, err := http.NewRequestWithContext(ctx, a.method, "http://"+w.bound.Address+a.path, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+w.person)
	if a.body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for k, v := range a.headers {
		r.Header.Set(k, v)
	}
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	return answer
}

// send gives status, header and body.
func (w *world) send(t *testing.T, a sent) (int, http.Header, string) {
	t.Helper()
	answer := w.request(t.Context(), t, a)
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, answer.Header, string(text)
}

func (w *world) problem(t *testing.T, a sent) (api.Problem, string) {
	t.Helper()
	status, header, text := w.send(t, a)
	var p api.Problem
	if err := json.Unmarshal([]byte(text), &p); err != nil || header.Get("Content-Type") != api.ProblemType {
		t.Fatalf("%s %s: %d, no problem: %v %s", a.method, a.path, status, err, text)
	}
	if p.Status != status || p.Instance != header.Get(RequestIDHeader) || p.Instance == "" {
		t.Errorf("%s %s: status %d and %d, instance %q of request %q", a.method, a.path, p.Status, status, p.Instance, header.Get(RequestIDHeader))
	}
	return p, text
}

// code is a request for a run of these steps.
func code(t *testing.T, steps ...sandboxtest.Step) string {
	t.Helper()
	text, err := json.Marshal(api.RunRequest{Code: string(sandboxtest.Program(steps).Source())})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// opened is a world with a session called work.
func opened(t *testing.T) *world {
	t.Helper()
	w := listening(t)
	if status, header, text := w.send(t, sent{method: "POST", path: "/v1/sessions", body: `{"name":"work"}`}); status != 201 || header.Get("Location") == "" {
		t.Fatalf("open: %d %s", status, text)
	}
	return w
}

func decodeInto[T any](t *testing.T, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

func TestSessionByNameIsFoundAgain(t *testing.T) {
	w := opened(t)
	first := w.request(t.Context(), t, sent{method: "GET", path: "/v1/sessions/work"})
	if first.StatusCode != 200 {
		t.Fatal(first.Status)
	}
	status, _, text := w.send(t, sent{method: "POST", path: "/v1/sessions", body: `{"name":"work"}`})
	if status != 200 || decodeInto[api.Session](t, text).Name != "work" {
		t.Errorf("%d %s", status, text)
	}
}

func TestRefusedRequests(t *testing.T) {
	w := opened(t)
	const secret = "s3cr3t-value"
	for name, c := range map[string]struct {
		sent
		want api.Code
	}{
		"a member nobody knows":  {sent{method: "POST", path: "/v1/sessions", body: `{"name":"x","` + "colour" + `":"` + secret + `"}`}, api.CodeInvalid},
		"a member in capitals":   {sent{method: "POST", path: "/v1/sessions", body: `{"Name":"` + secret + `"}`}, api.CodeInvalid},
		"a member twice":         {sent{method: "POST", path: "/v1/sessions", body: `{"name":"a","name":"` + secret + `"}`}, api.CodeInvalid},
		"a name out of form":     {sent{method: "POST", path: "/v1/sessions", body: `{"name":"/` + secret + `"}`}, api.CodeInvalid},
		"another type":           {sent{method: "POST", path: "/v1/sessions", body: `{"name":["` + secret + `"]}`}, api.CodeInvalid},
		"no JSON":                {sent{method: "POST", path: "/v1/sessions", body: `{"name":"` + secret}, api.CodeMalformed},
		"no UTF-8":               {sent{method: "POST", path: "/v1/sessions", body: "{\"name\":\"" + secret + "\xff\"}"}, api.CodeMalformed},
		"no JSON type":           {sent{method: "POST", path: "/v1/sessions", body: `{}`, headers: map[string]string{"Content-Type": "application/xml"}}, api.CodeMedia},
		"packed JSON":            {sent{method: "POST", path: "/v1/sessions", body: `{}`, headers: map[string]string{"Content-Encoding": "gzip"}}, api.CodeMedia},
		"no run":                 {sent{method: "POST", path: "/v1/sessions/work/runs"}, api.CodeMalformed},
		"an empty limit":         {sent{method: "GET", path: "/v1/sessions?limit="}, api.CodeInvalid},
		"a limit twice":          {sent{method: "GET", path: "/v1/sessions?limit=1&limit=2"}, api.CodeInvalid},
		"a limit of zero":        {sent{method: "GET", path: "/v1/sessions?limit=0"}, api.CodeInvalid},
		"a parameter too many":   {sent{method: "GET", path: "/v1/sessions?" + "all=" + secret}, api.CodeInvalid},
		"a cursor of nobody's":   {sent{method: "GET", path: "/v1/sessions/work/runs?cursor=" + secret}, api.CodeInvalid},
		"a query out of form":    {sent{method: "GET", path: "/v1/sessions?cursor=%zz"}, api.CodeMalformed},
		"an empty key":           {sent{method: "POST", path: "/v1/sessions/work/runs", body: `{"code":"1"}`, headers: map[string]string{"Idempotency-Key": ""}}, api.CodeInvalid},
		"a session not there":    {sent{method: "GET", path: "/v1/sessions/" + secret}, api.CodeNotFound},
		"a run not there":        {sent{method: "GET", path: "/v1/runs/" + secret}, api.CodeNotFound},
		"events of no run":       {sent{method: "GET", path: "/v1/runs/" + secret + "/events"}, api.CodeNotFound},
		"a path not there":       {sent{method: "GET", path: "/v2/sessions"}, api.CodeNotFound},
		"a method not there":     {sent{method: "PATCH", path: "/v1/sessions"}, api.CodeMethod},
		"a list of files as put": {sent{method: "PUT", path: "/v1/sessions/work/files", body: "{}"}, api.CodeMethod},
		"nothing to interrupt":   {sent{method: "POST", path: "/v1/sessions/work/interrupt"}, api.CodeNotRunning},
		"a backend not there":    {sent{method: "POST", path: "/v1/sessions", body: `{"backend":"wasm"}`}, api.CodeInvalid},
		"a body too large":       {sent{method: "POST", path: "/v1/sessions", body: `{"name":"` + strings.Repeat("a", smallBody) + `"}`}, api.CodeTooLarge},
		"an archive of nothing":  {sent{method: "PUT", path: "/v1/sessions/work/archive"}, api.CodeMalformed},
		"a table without a file": {sent{method: "PUT", path: "/v1/sessions/work/datasets/t", body: `{"path":"` + secret + `.csv"}`}, api.CodeNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			p, text := w.problem(t, c.sent)
			if p.Code != c.want {
				t.Errorf("got %s, want %s: %s", p.Code, c.want, text)
			}
			if strings.Contains(text, secret) {
				t.Errorf("the answer repeats what was sent: %s", text)
			}
		})
	}
}

// An upload that nobody waits for has to leave nothing, also of a large JSON body
// whose length is not told before.
func TestBodyWithoutLengthIsBounded(t *testing.T) {
	w := opened(t)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+w.bound.Address+"/v1/sessions",
		io.LimitReader(endless{}, smallBody+100))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+w.person)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusRequestEntityTooLarge {
		t.Error(answer.Status)
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	return len(b), nil
}

// sse reads one event of a stream; comments are passed over.
func sse(t *testing.T, r *bufio.Reader) (id string, e api.Event, err error) {
	t.Helper()
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return id, e, err
		}
		line = strings.TrimSuffix(line, "\n")
		if name, value, ok := strings.Cut(line, ": "); ok {
			switch name {
			case "id":
				id = value
			case "data":
				e = decodeInto[api.Event](t, value)
			}
		}
		if line == "" && e.Kind != "" {
			return id, e, nil
		}
	}
}

// await asks until what is sent for holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for range 2000 {
		if holds() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("it did not happen: " + what)
}

func eofOrBroken(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
