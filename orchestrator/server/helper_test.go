package server

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"brig/orchestrator"
	"brig/orchestrator/api"
	"brig/orchestrator/audit"
	"brig/orchestrator/config"
	"brig/orchestrator/owner"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/sandbox/sandboxtest"
	"brig/orchestrator/service"
	"brig/orchestrator/store"
)

// world is a server on real sockets in a directory of its own, over a service whose
// sessions are pretended.
type world struct {
	*Server
	dir    string
	bound  Bound
	agent  string // tokens
	person string
}

// newWorld makes a server that does not listen yet; edit may change its options.
func newWorld(t *testing.T, edit ...func(*Options)) *world {
	t.Helper()
	dir := t.TempDir()
	paths := config.Paths{State: filepath.Join(dir, "s"), Data: filepath.Join(dir, "d"), Config: filepath.Join(dir, "c"), Cache: filepath.Join(dir, "x"), Runtime: filepath.Join(dir, "r")}
	if err := config.Ensure(paths); err != nil {
		t.Fatal(err)
	}
	own, err := owner.Open(paths.State)
	if err != nil {
		t.Fatal(err)
	}
	db, _, err := store.Open(t.Context(), store.Options{Dir: paths.State, Owner: own.ID(), Process: own.Token()})
	if err != nil {
		t.Fatal(err)
	}
	backend := sandboxtest.NewMemory(sandboxtest.MemoryOptions{Kind: sandbox.Docker, Layers: sandboxtest.EnforcedLayers()})
	orc, err := orchestrator.New(orchestrator.Options{Backends: []sandbox.Backend{backend}, Config: config.Default(), Paths: paths, Owner: own, Store: db})
	if err != nil {
		t.Fatal(err)
	}
	log, _, err := audit.Open(t.Context(), audit.Options{Dir: filepath.Join(paths.State, "audit")})
	if err != nil {
		t.Fatal(err)
	}
	svc, err := service.New(service.Options{
		Orchestrator: orc, Audit: log, Backends: []sandbox.Backend{backend}, Store: db, Version: "1", Log: zerolog.Nop(),
		Config: func() config.Loaded { return config.Loaded{Config: config.Default()} },
	})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Service: svc, Paths: paths, Listen: "127.0.0.1:0", Version: "1", Log: zerolog.New(io.Discard)}
	for _, f := range edit {
		f(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{Server: s, dir: paths.Runtime, agent: s.tokens.agentText, person: s.tokens.operatorText}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("shut down: %v", err)
		}
		if err := svc.Close(ctx); err != nil {
			t.Errorf("close the service: %v", err)
		}
		for _, c := range []io.Closer{log, db, own} {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return w
}

// listening makes one that serves.
func listening(t *testing.T, edit ...func(*Options)) *world {
	w := newWorld(t, edit...)
	w.serve(t)
	return w
}

func (w *world) serve(t *testing.T) {
	t.Helper()
	var err error
	if w.bound, err = w.Listen(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- w.Serve() }()
	t.Cleanup(func() {
		w.Drain()
		_ = w.http.Close()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
}

// dial connects to the socket of that name, or with "tcp" to the port.
func (w *world) dial(t *testing.T, to string) net.Conn {
	t.Helper()
	network, at := "unix", filepath.Join(w.dir, to)
	if to == "tcp" {
		network, at = "tcp", w.bound.Address
	}
	c, err := net.Dial(network, at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return c
}

// raw sends bytes as they are and reads one answer; nil: there was none.
func (w *world) raw(t *testing.T, to, text string) *reply {
	t.Helper()
	c := w.dial(t, to)
	if _, err := io.WriteString(c, strings.ReplaceAll(text, "PORT", w.port())); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(text, " ")
	return readReply(t, bufio.NewReader(c), method)
}

func (w *world) port() string {
	_, port, _ := net.SplitHostPort(w.bound.Address)
	return port
}

// reply is an answer and, where it is one, its problem.
type reply struct {
	*http.Response
	text    string
	problem api.Problem
}

func readReply(t *testing.T, r *bufio.Reader, method string) *reply {
	t.Helper()
	answer, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		return nil
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil
	}
	got := &reply{Response: answer, text: string(text)}
	if answer.StatusCode >= 400 && method != http.MethodHead {
		if kind := answer.Header.Get("Content-Type"); kind != api.ProblemType {
			t.Errorf("%d is %q: %s", answer.StatusCode, kind, text)
		} else if err := json.Unmarshal(text, &got.problem); err != nil || got.problem.Status != answer.StatusCode {
			t.Errorf("%d: %v: %s", answer.StatusCode, err, text)
		}
	}
	return got
}

// get asks the port with these headers, one "Name: value" each.
func (w *world) get(t *testing.T, to, path string, headers ...string) *reply {
	t.Helper()
	text := "GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n"
	for _, h := range headers {
		text += h + "\r\n"
	}
	r := w.raw(t, to, text+"\r\n")
	if r == nil {
		t.Fatalf("%s: no answer", path)
	}
	return r
}

func bearer(token string) string { return "Authorization: Bearer " + token }
