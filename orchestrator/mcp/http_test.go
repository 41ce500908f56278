package mcp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"brig/orchestrator/api"
	"brig/orchestrator/config"
	"brig/orchestrator/mcp"
	"brig/orchestrator/sandbox/sandboxtest"
)

// who names the caller in the tests' requests, as a listener would find out.
const who = "Test-Who"

// listen serves MCP over HTTP on a real socket.
func (r *rig) listen(s *mcp.Server, only map[string]string) *httptest.Server {
	r.t.Helper()
	h := httptest.NewServer(s.Handler(func(q *http.Request) (mcp.Peer, error) {
		id := q.Header.Get(who)
		if id == "" {
			return mcp.Peer{}, errors.New("nobody")
		}
		return mcp.Peer{Brig: r.agent(id, only[id]), ID: id, Session: only[id]}, nil
	}))
	r.t.Cleanup(h.Close)
	return h
}

// as sends requests as somebody.
type as struct{ id string }

func (a as) RoundTrip(q *http.Request) (*http.Response, error) {
	q = q.Clone(q.Context())
	q.Header.Set(who, a.id)
	return http.DefaultTransport.RoundTrip(q)
}

// dial connects somebody with a revision of the protocol.
func (r *rig) dial(h *httptest.Server, id, revision string) *sdk.ClientSession {
	r.t.Helper()
	c := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	s, err := c.Connect(r.t.Context(), &sdk.StreamableClientTransport{Endpoint: h.URL, HTTPClient: &http.Client{Transport: as{id}}}, &sdk.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = s.Close() })
	return s
}

const (
	stateful  = "2025-11-25"
	stateless = "2026-07-28"
)

// TestSessionsOverHTTP gives a client with an MCP session one of its own, which ends
// when the client says goodbye, and one without the session of its credential.
func TestSessionsOverHTTP(t *testing.T) {
	r := newRig(t)
	h := r.listen(r.server(mcp.Options{}), nil)
	one, two, bare := r.dial(h, "a", stateful), r.dial(h, "a", stateful), r.dial(h, "a", stateless)
	for i, c := range []*sdk.ClientSession{one, two, bare} {
		if got := tools(t, c); got != withRun {
			t.Errorf("client %d has the tools %s", i, got)
		}
		if a := call(t, c, "run_python_sandboxed", map[string]any{"code": program(sandboxtest.Print("x"))}); a.data["stdout"] != "x\n" {
			t.Errorf("client %d: %q", i, a.text(0))
		}
	}
	open := r.sessions()
	slices.Sort(open)
	if len(open) != 3 || !slices.Contains(open, "mcp-a") {
		t.Fatalf("the sessions are %v", open)
	}
	if open = slices.DeleteFunc(open, func(name string) bool { return name == "mcp-a" }); !strings.HasPrefix(open[0], "mcp-") {
		t.Fatalf("the sessions are %v", open)
	}
	// Somebody else's stateless client has nothing to do with them.
	other := r.dial(h, "b", stateless)
	if a := call(t, other, "list_files", map[string]any{"session": open[0]}); !a.IsError || !strings.Contains(a.text(0), "Problem: not-found") {
		t.Errorf("another credential saw %q", a.text(0))
	}
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	for limit := time.Now().Add(20 * time.Second); len(r.sessions()) != 2; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("after the goodbye the sessions are %v", r.sessions())
		}
	}
}

// post sends one message by hand.
func post(t *testing.T, url, body string, header map[string]string) (int, http.Header, string) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Accept", "application/json, text/event-stream")
	for name, v := range header {
		q.Header.Set(name, v)
	}
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, a.Header, string(text)
}

const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"%s","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

// TestSessionIsItsCredentials: knowing the id of an MCP session is not enough.
func TestSessionIsItsCredentials(t *testing.T) {
	r := newRig(t)
	h := r.listen(r.server(mcp.Options{}), nil)
	code, header, text := post(t, h.URL, strings.Replace(hello, "%s", stateful, 1), map[string]string{who: "a"})
	id := header.Get("Mcp-Session-Id")
	if code != 200 || id == "" {
		t.Fatalf("initialize: %d %s", code, text)
	}
	ask := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"sandbox_status","arguments":{}}}`
	for caller, want := range map[string]int{"a": 200, "b": 403, "": 401} {
		code, _, text := post(t, h.URL, ask, map[string]string{who: caller, "Mcp-Session-Id": id, "Mcp-Protocol-Version": stateful, "Authorization": "Bearer x"})
		if code != want || caller != "a" && strings.Contains(text, "runs_code") {
			t.Errorf("%q got %d: %s", caller, code, text)
		}
	}
	// A revision without sessions that is asked for by initialize was never agreed on.
	if _, _, text := post(t, h.URL, strings.Replace(hello, "%s", stateless, 1), map[string]string{who: "a"}); !strings.Contains(text, `"protocolVersion":"2025-11-25"`) {
		t.Errorf("initialize with %s gave %s", stateless, text)
	}
}

// TestSessionCredential always means its session.
func TestSessionCredential(t *testing.T) {
	r := newRig(t)
	s, _, err := r.agent("a", "").OpenSession(t.Context(), api.SessionRequest{Name: "only"})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.agent("a", "").OpenSession(t.Context(), api.SessionRequest{Name: "other"}); err != nil {
		t.Fatal(err)
	}
	h := r.listen(r.server(mcp.Options{}), map[string]string{"session:x": s.ID})
	for _, revision := range []string{stateful, stateless} {
		c := r.dial(h, "session:x", revision)
		for name, works := range map[string]bool{"": true, s.ID: true, "only": true, "other": false, "fresh": false} {
			arguments := map[string]any{"code": program(sandboxtest.Print("x"))}
			if name != "" {
				arguments["session"] = name
			}
			a := call(t, c, "run_python_sandboxed", arguments)
			if a.IsError == works || works && a.data["session"] != s.ID {
				t.Errorf("%s, session %q: %q", revision, name, a.text(0))
			}
		}
	}
	if n := len(r.sessions()); n != 2 {
		t.Errorf("there are %d sessions", n)
	}
}

// TestClosedPost ends the run where the POST is all there is of a request, and lets it
// go on where a client with a session can still ask.
func TestClosedPost(t *testing.T) {
	r := newRig(t)
	h := r.listen(r.server(mcp.Options{}), nil)
	for _, c := range []struct {
		revision string
		ends     bool
	}{{stateless, true}, {stateful, false}} {
		t.Run(c.revision, func(t *testing.T) {
			session := r.dial(h, "a", c.revision)
			a := call(t, session, "run_python_sandboxed", map[string]any{"code": program(sandboxtest.Spin()), "wait_seconds": 0})
			run := a.data["run"].(string)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = session.CallTool(ctx, &sdk.CallToolParams{Name: "run_wait", Arguments: map[string]any{"run": run}})
			}()
			cancel()
			<-done
			// To wait for a run is not to own it: the end of the waiting ends nothing.
			if got, err := r.agent("a", "").FindRun(t.Context(), run, api.FindOptions{}); err != nil || got.State == api.RunEnded {
				t.Errorf("it is %s (%v)", got.State, err)
			}
			if b := call(t, session, "run_cancel", map[string]any{"run": run}); b.data["state"] != "ended" {
				t.Errorf("cancelled, it is %v", b.data)
			}
		})
	}
}

// TestChangeOverHTTP reaches a client that listens, in both ways of listening.
func TestChangeOverHTTP(t *testing.T) {
	r := newRig(t)
	h := r.listen(r.server(mcp.Options{}), nil)
	changed := make(chan struct{}, 16)
	c := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { changed <- struct{}{} },
	})
	s, err := c.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: h.URL, HTTPClient: &http.Client{Transport: as{"a"}}}, &sdk.ClientSessionOptions{ProtocolVersion: stateful})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got := tools(t, s); got != withRun {
		t.Fatalf("the tools are %s", got)
	}
	r.set(func(c *config.Config) { c.Permissions.Profile = config.AskAlways })
	select {
	case <-changed:
	case <-time.After(30 * time.Second):
		t.Fatal("nobody was told")
	}
	if got := tools(t, s); got != afterRun {
		t.Errorf("the tools are %s", got)
	}
}

// TestHangUp: the end of brig does not wait for clients that wait for news.
func TestHangUp(t *testing.T) {
	r := newRig(t)
	s := r.server(mcp.Options{})
	h := r.listen(s, nil)
	session := ""
	ask := func(method, body string) *http.Response {
		q, err := http.NewRequestWithContext(t.Context(), method, h.URL, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Accept", "application/json, text/event-stream")
		q.Header.Set("Content-Type", "application/json")
		if session != "" {
			q.Header.Set("Mcp-Session-Id", session)
		}
		a, err := (&http.Client{Transport: as{"a"}}).Do(q)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = a.Body.Close() })
		return a
	}
	session = ask(http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+stateful+`","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`).Header.Get("Mcp-Session-Id")
	_ = ask(http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	news := ask(http.MethodGet, "")
	if session == "" || news.StatusCode != http.StatusOK {
		t.Fatalf("session %q, status %d", session, news.StatusCode)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	s.HangUp()
	if _, err := io.Copy(io.Discard, news.Body); err != nil {
		t.Errorf("the stream did not end well: %v", err)
	}
}
