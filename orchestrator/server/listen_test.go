package server

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"brig/orchestrator/api"
)

func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestTakenPort(t *testing.T) {
	squatter, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer squatter.Close()
	at := func(free bool) func(*Options) {
		return func(o *Options) { o.Listen, o.Free = squatter.Addr().String(), free }
	}
	w := newWorld(t, at(false))
	_, err = w.Listen()
	var taken *TakenError
	if !errors.As(err, &taken) || taken.Address != squatter.Addr().String() || !strings.Contains(err.Error(), "server.listen") {
		t.Errorf("%v", err)
	}
	if left := files(t, w.dir); len(left) != 0 {
		t.Errorf("left behind: %q", left)
	}
	w = listening(t, at(true))
	if w.bound.Address == squatter.Addr().String() || len(w.bound.Notes) != 1 || !strings.Contains(w.bound.Notes[0], w.bound.Address) {
		t.Errorf("%+v", w.bound)
	}
	if r := w.get(t, "tcp", "/healthz"); r.StatusCode != 200 {
		t.Errorf("%d", r.StatusCode)
	}
}

func TestOnlyLoopback(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", ":0", "[::]:0", "example.com:0", "localhost:0", "192.0.2.1:0", "127.0.0.1", ""} {
		w := newWorld(t, func(o *Options) {
			if o.Listen = address; address == "" {
				o.Listen = " "
			}
		})
		if b, err := w.Listen(); err == nil {
			t.Errorf("%q: %+v", address, b)
		}
	}
}

func TestSocketsOnly(t *testing.T) {
	if !sockets {
		t.Log("this system has none")
		return
	}
	w := listening(t, func(o *Options) { o.Listen = "none" })
	if w.bound.Address != "" || len(w.bound.Sockets) != 2 {
		t.Errorf("%+v", w.bound)
	}
	if r := w.get(t, api.AgentSocket, "/healthz"); r.StatusCode != 200 {
		t.Errorf("%d", r.StatusCode)
	}
	if _, err := w.Login(); !api.IsProblem(err, api.CodeConflict) {
		t.Errorf("a login for a browser that cannot connect: %v", err)
	}
}

// What a brig that was killed left does not stand in the way of the next one.
func TestLeftovers(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{api.AgentToken, api.MCPToken, api.OperatorToken, api.EndpointFile} {
		if err := os.WriteFile(filepath.Join(w.dir, name), []byte("old"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if sockets {
		for _, name := range []string{api.AgentSocket, api.AgentSocket + ".new", api.OperatorSocket} {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(w.dir, name), Net: "unix"})
			if err != nil {
				t.Fatal(err)
			}
			l.SetUnlinkOnClose(false)
			_ = l.Close()
		}
	}
	w.serve(t)
	want := []string{api.AgentToken, api.EndpointFile, api.MCPToken, api.OperatorToken}
	if sockets {
		want = append(want, api.AgentSocket, api.OperatorSocket)
	}
	slices.Sort(want)
	if got := files(t, w.dir); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if r := w.get(t, "tcp", "/healthz"); r.StatusCode != 200 {
		t.Errorf("%d", r.StatusCode)
	}
}

// Two starts never have the same tokens, and the files have what counts.
func TestTokensAreNew(t *testing.T) {
	seen := map[string]bool{}
	for range 2 {
		w := listening(t)
		for _, name := range []string{api.AgentToken, api.MCPToken, api.OperatorToken} {
			text, err := os.ReadFile(filepath.Join(w.dir, name))
			if err != nil {
				t.Fatal(err)
			}
			token := strings.TrimSpace(string(text))
			if len(token) != 43 || seen[token] {
				t.Errorf("%s is %q", name, token)
			}
			seen[token] = true
			if r := w.get(t, "tcp", "/healthz", bearer(token)); r.StatusCode != 200 || !strings.Contains(r.text, "status") {
				t.Errorf("%d %s", r.StatusCode, r.text)
			}
		}
	}
}
