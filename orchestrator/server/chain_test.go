package server

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"brig/orchestrator/api"
	"brig/orchestrator/service"
)

// who answers with the caller, so that tests see what the chain found out.
func who(w http.ResponseWriter, r *http.Request) {
	c, ok := CallerFrom(r.Context())
	fmt.Fprintf(w, "%s %s %s %t", c.Role, c.ID, c.Approval, ok)
}

func withWho(t *testing.T) *world {
	w := newWorld(t)
	w.mux.HandleFunc("GET /who", who)
	w.mux.HandleFunc("POST /who", who)
	w.serve(t)
	return w
}

func TestHost(t *testing.T) {
	w := withWho(t)
	for _, c := range []struct {
		line, host string
		want       int
	}{
		{"GET /who HTTP/1.1", "Host: 127.0.0.1:PORT", 200},
		{"GET /who HTTP/1.1", "Host: localhost:PORT", 200},
		{"GET /who HTTP/1.1", "Host: evil.example", 421},
		{"GET /who HTTP/1.1", "Host: evil.example:PORT", 421},
		{"GET /who HTTP/1.1", "Host: 127.0.0.1", 421},
		{"GET /who HTTP/1.1", "Host: 127.0.0.1:1", 421},
		{"GET /who HTTP/1.1", "Host: localhost.:PORT", 421},
		{"GET /who HTTP/1.1", "Host: brig.localhost:PORT", 421},
		{"GET /who HTTP/1.1", "Host: 127.0.0.1:PORT.evil.example", 421},
		{"GET /who HTTP/1.1", "Host: [::1]:PORT", 421},
		{"GET /who HTTP/1.1", "Host: 0.0.0.0:PORT", 421},
		{"GET /who HTTP/1.1", "Host:", 421},
		{"GET /who HTTP/1.0", "X: y", 421},
		{"GET /who HTTP/1.0", "Host: 127.0.0.1:PORT", 200},
		{"GET http://evil.example/who HTTP/1.1", "Host: 127.0.0.1:PORT", 421},
		{"GET /who HTTP/1.1", "X: y", 400},
		{"GET /who HTTP/1.1", "Host: 127.0.0.1:PORT\r\nHost: evil.example", 400},
		{"GET /who HTTP/1.1", "Host: 127.0.0.1:PORT\r\nX-Forwarded-Host: evil.example\r\nForwarded: host=evil.example", 200},
	} {
		r := w.raw(t, "tcp", c.line+"\r\n"+c.host+"\r\n"+bearer(w.agent)+"\r\n\r\n")
		if r == nil || r.StatusCode != c.want {
			t.Errorf("%s, %q: %+v, want %d", c.line, c.host, r, c.want)
		}
	}
	// No browser comes through a socket.
	if r := w.raw(t, api.AgentSocket, "GET /who HTTP/1.1\r\nHost: whatever\r\n\r\n"); r == nil || r.StatusCode != 200 {
		t.Errorf("%+v", r)
	}
}

func TestSite(t *testing.T) {
	w := withWho(t)
	for _, c := range []struct {
		headers string
		want    int
	}{
		{"", 200},
		{"Sec-Fetch-Site: none", 200},
		{"Sec-Fetch-Site: same-origin", 200},
		{"Sec-Fetch-Site: same-site", 403}, // another port of this machine
		{"Sec-Fetch-Site: cross-site", 403},
		{"Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors", 403},
		{"Sec-Fetch-Site: nonsense", 403},
		{"Sec-Fetch-Site: none\r\nSec-Fetch-Site: cross-site", 400},
		{"Origin: http://127.0.0.1:PORT", 200},
		{"Origin: http://127.0.0.1:1", 403},
		{"Origin: https://127.0.0.1:PORT", 403},
		{"Origin: http://localhost:PORT", 403}, // another origin than the host that was asked
		{"Origin: http://evil.example", 403},
		{"Origin: null", 403},
		{"Sec-Fetch-Site: same-origin\r\nOrigin: http://evil.example", 403},
	} {
		for _, method := range []string{"GET", "POST"} {
			r := w.raw(t, "tcp", method+" /who HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nContent-Length: 0\r\n"+bearer(w.agent)+"\r\n"+c.headers+"\r\n\r\n")
			if c.headers == "" {
				r = w.raw(t, "tcp", method+" /who HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nContent-Length: 0\r\n"+bearer(w.agent)+"\r\n\r\n")
			}
			if r == nil || r.StatusCode != c.want {
				t.Errorf("%s %q: %+v, want %d", method, c.headers, r, c.want)
			}
			if r != nil && r.Header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%q gets a CORS header", c.headers)
			}
		}
	}
}

func TestCredentials(t *testing.T) {
	w := withWho(t)
	person := service.Operator.String() + " operator operator true"
	agent := service.Agent.String() + " agent credential true"
	for _, c := range []struct {
		to, header string
		want       string // the caller, or a code
	}{
		{"tcp", "", "unauthorized"},
		{"tcp", bearer(w.agent), agent},
		{"tcp", bearer(w.person), person},
		{"tcp", "Authorization: bearer  " + w.agent, agent},
		{"tcp", bearer("nonsense"), "unauthorized"},
		{"tcp", bearer(""), "unauthorized"},
		{"tcp", bearer(w.agent + "x"), "unauthorized"},
		{"tcp", bearer(strings.Repeat("x", 2000)), "unauthorized"},
		{"tcp", "Authorization: Basic " + w.agent, "unauthorized"},
		{"tcp", bearer(w.agent) + "\r\n" + bearer(w.person), "malformed"},
		{api.AgentSocket, "", agent},
		{api.AgentSocket, bearer(w.person), "unauthorized"}, // nothing makes an operator there
		{api.AgentSocket, bearer("nonsense"), "unauthorized"},
		{api.OperatorSocket, "", person},
		{api.OperatorSocket, bearer(w.agent), agent}, // a credential that was sent narrows
		{api.OperatorSocket, bearer("nonsense"), "unauthorized"},
	} {
		headers := []string{}
		if c.header != "" {
			headers = append(headers, c.header)
		}
		r := w.get(t, c.to, "/who", headers...)
		if got := r.text; got != c.want && string(r.problem.Code) != c.want {
			t.Errorf("%s %q: %s, want %s", c.to, c.header, got, c.want)
		}
		if r.StatusCode == 401 && r.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s %q: a 401 says not how", c.to, c.header)
		}
	}
}

// What needs a credential and what does not, and that nothing else is told.
func TestPublicPaths(t *testing.T) {
	w := listening(t)
	for path, want := range map[string]int{
		"/healthz": 200, "/login": 401, "/login?t=x": 401, "/.well-known/oauth-authorization-server": 404, "/.well-known/": 404,
		"/": 401, "/v1/status": 401, "/metrics": 401, "/openapi.json": 401, "/debug/pprof/": 401, "/nothing": 401, "/healthz/": 401, "/mcp": 401,
	} {
		r := w.get(t, "tcp", path)
		if r.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, r.StatusCode, want)
		}
	}
	if r := w.get(t, "tcp", "/healthz"); r.text != "{\"status\":\"ok\"}\n" {
		t.Errorf("a stranger hears %q", r.text)
	}
	for _, path := range []string{"/metrics", "/debug/pprof/", "/debug/pprof/cmdline"} {
		if r := w.get(t, api.AgentSocket, path); r.problem.Code != api.CodeForbidden {
			t.Errorf("an agent gets %s: %d", path, r.StatusCode)
		}
		if r := w.get(t, api.OperatorSocket, path); r.StatusCode != 200 {
			t.Errorf("the operator does not get %s: %d", path, r.StatusCode)
		}
	}
}

// Guessing is slowed down, and who has a right credential does not notice.
func TestManyStrangers(t *testing.T) {
	w := newWorld(t)
	w.mux.HandleFunc("GET /who", who)
	w.limits.strangers = rate.NewLimiter(rate.Every(time.Hour), 3)
	w.serve(t)
	for i := range 6 {
		want := 401
		if i >= 3 {
			want = 429
		}
		if r := w.get(t, "tcp", "/who", bearer("guess")); r.StatusCode != want {
			t.Errorf("guess %d: %d, want %d", i, r.StatusCode, want)
		}
	}
	if r := w.get(t, "tcp", "/who", bearer(w.agent)); r.StatusCode != 200 {
		t.Errorf("%d: %s", r.StatusCode, r.text)
	}
}

func TestEveryAnswerIsAProblem(t *testing.T) {
	w := withWho(t)
	head := "Host: 127.0.0.1:PORT\r\n" + bearer(w.agent) + "\r\n"
	for _, c := range []struct {
		text string
		code api.Code
	}{
		{"GET /nothing HTTP/1.1\r\n" + head + "\r\n", api.CodeNotFound},
		{"PUT /who HTTP/1.1\r\n" + head + "Content-Length: 0\r\n\r\n", api.CodeMethod},
		{"OPTIONS /who HTTP/1.1\r\n" + head + "\r\n", api.CodeMethod},
		{"OPTIONS * HTTP/1.1\r\n" + head + "\r\n", api.CodeMalformed},
		{"TRACE /who HTTP/1.1\r\n" + head + "\r\n", api.CodeMethod},
		{"CONNECT 127.0.0.1:PORT HTTP/1.1\r\n" + head + "\r\n", api.CodeMethod},
		{"BREW /who HTTP/1.1\r\n" + head + "\r\n", api.CodeMethod},
		{"get /who HTTP/1.1\r\n" + head + "\r\n", api.CodeMethod},
		{"GET /a/../who HTTP/1.1\r\n" + head + "\r\n", api.CodeMalformed},
		{"GET //who HTTP/1.1\r\n" + head + "\r\n", api.CodeMalformed},
		{"GET /. HTTP/1.1\r\n" + head + "\r\n", api.CodeMalformed},
		{"GET /%zz HTTP/1.1\r\n" + head + "\r\n", api.CodeMalformed},
		{"GET /who HTTP/3.7\r\n" + head + "\r\n", api.CodeMalformed},
		{"GARBAGE\r\n\r\n", api.CodeMalformed},
		{"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", api.CodeMalformed}, // TLS
		{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", api.CodeMethod},
		{"GET /who HTTP/1.1\r\n" + head + "X : y\r\n\r\n", api.CodeMalformed},
		{"GET /who HTTP/1.1\r\n" + head + "X: " + strings.Repeat("y", 32<<10) + "\r\n\r\n", api.CodeHeader},
		{"POST /who HTTP/1.1\r\n" + head + "Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}", api.CodeMedia},
		{"POST /who HTTP/1.1\r\n" + head + "Content-Type: Multipart/Form-Data; boundary=x\r\nContent-Length: 2\r\n\r\n{}", api.CodeMedia},
		// Lengths that do not agree: never two requests.
		{"POST /who HTTP/1.1\r\n" + head + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}", api.CodeMalformed},
		{"POST /who HTTP/1.1\r\n" + head + "Content-Length: -1\r\n\r\n", api.CodeMalformed},
		{"POST /who HTTP/1.1\r\n" + head + "Content-Length: +0\r\n\r\n", api.CodeMalformed},
		{"POST /who HTTP/1.1\r\n" + head + "Transfer-Encoding: gzip\r\n\r\n", api.CodeMalformed},
		{"POST /who HTTP/1.1\r\n" + head + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", api.CodeMalformed},
		{"POST /who HTTP/1.1\r\n" + head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", api.CodeMalformed},
	} {
		r := w.raw(t, "tcp", c.text)
		if r == nil {
			t.Errorf("%.60q: no answer", c.text)
		} else if r.problem.Code != c.code {
			t.Errorf("%.60q: %d %s, want %s", c.text, r.StatusCode, r.text, c.code)
		}
	}
	if r := w.raw(t, "tcp", "HEAD /nothing HTTP/1.1\r\n"+head+"\r\n"); r == nil || r.StatusCode != 404 {
		t.Errorf("%+v", r)
	}
}

// A body that looks like a request is none.
func TestNoSecondRequestInABody(t *testing.T) {
	w := newWorld(t)
	var first, second atomic.Int32
	w.mux.HandleFunc("POST /first", func(http.ResponseWriter, *http.Request) { first.Add(1) }) // reads nothing of it
	w.mux.HandleFunc("POST /second", func(http.ResponseWriter, *http.Request) { second.Add(1) })
	w.serve(t)
	inner := "POST /second HTTP/1.1\r\nHost: 127.0.0.1:" + w.port() + "\r\n" + bearer(w.agent) + "\r\nContent-Length: 0\r\n\r\n"
	head := "POST /first HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n" + bearer(w.agent) + "\r\n"
	long := strings.Repeat("x", 300<<10) // more than net/http reads of what nobody wanted
	for _, body := range []string{
		fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(inner), inner),
		fmt.Sprintf("Content-Length: %d\r\n\r\n%s%s", len(long)+len(inner), long, inner),
		fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(inner), inner),
	} {
		c := w.dial(t, "tcp")
		if _, err := io.WriteString(c, strings.ReplaceAll(head, "PORT", w.port())+body+"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:"+w.port()+"\r\nConnection: close\r\n\r\n"); err != nil {
			continue // it was closed while it sent what nobody wanted
		}
		_, _ = io.Copy(io.Discard, c)
	}
	if first.Load() != 3 || second.Load() != 0 {
		t.Errorf("%d requests and %d in their bodies were served", first.Load(), second.Load())
	}
}
