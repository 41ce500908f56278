package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"brig/orchestrator/api"
)

// brigAt serves h on a real unix socket, as a brig does, and returns a client of it.
// What h answers is a brig's: it has that header.
func brigAt(t *testing.T, h http.Handler) (*api.Client, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "brig") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	serveAt(t, filepath.Join(dir, api.OperatorSocket), h)
	end, err := api.Find(context.Background(), dir, api.Operator)
	if err != nil {
		t.Fatal(err)
	}
	c := api.NewClient(end)
	t.Cleanup(c.Close)
	return c, dir
}

func serveAt(t *testing.T, socket string, h http.Handler) *http.Server {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(api.VersionHeader, "v1")
		h.ServeHTTP(w, r)
	})}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return s
}

// stream writes events as a brig does.
type stream struct {
	t *testing.T
	w http.ResponseWriter
}

func newStream(t *testing.T, w http.ResponseWriter) *stream {
	w.Header().Set("Content-Type", "text/event-stream")
	s := &stream{t, w}
	s.flush()
	return s
}

func (s *stream) flush() {
	if err := http.NewResponseController(s.w).Flush(); err != nil {
		s.t.Log(err)
	}
}

func (s *stream) send(id uint64, kind api.EventKind, data any) {
	text, err := json.Marshal(data)
	if err != nil {
		s.t.Error(err)
	}
	e, err := json.Marshal(api.Event{ID: id, Kind: kind, Data: text})
	if err != nil {
		s.t.Error(err)
	}
	fmt.Fprintf(s.w, "id: %d\nevent: %s\ndata: %s\n\n", id, kind, e)
	s.flush()
}

func problem(w http.ResponseWriter, p *api.Problem) {
	w.Header().Set("Content-Type", api.ProblemType)
	w.WriteHeader(p.Status)
	json.NewEncoder(w).Encode(p)
}
