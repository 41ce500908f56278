package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"brig/orchestrator/api"
)

func TestFindNothing(t *testing.T) {
	dir := t.TempDir()
	if _, err := api.Find(t.Context(), dir, api.Operator); !errors.Is(err, api.ErrNotRunning) {
		t.Errorf("an empty directory: %v", err)
	}
	// What a brig that was killed leaves: its socket, and where it listened. The address
	// may be another user's by now.
	dir, err := os.MkdirTemp("", "brig")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, api.OperatorSocket)})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	write(t, dir, api.EndpointFile, `{"address":"127.0.0.1:7411","version":"v1","pid":1}`)
	write(t, dir, api.OperatorToken, "secret\n")
	if e, err := api.Find(t.Context(), dir, api.Operator); !errors.Is(err, api.ErrNotRunning) {
		t.Errorf("a socket that nobody listens on: %+v %v", e, err)
	}
}

func TestFindAddress(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		`{"address":"127.0.0.1:7411"}`: "127.0.0.1:7411",
		`{"address":"[::1]:7411"}`:     "[::1]:7411",
		`{"address":"10.0.0.1:7411"}`:  "no address on loopback",
		`{"address":"localhost:7411"}`: "no address on loopback",
		`{"address":""}`:               api.ErrNotRunning.Error(),
		`{"addr`:                       "read where brig listens",
	} {
		write(t, dir, api.EndpointFile, text)
		write(t, dir, api.AgentToken, "secret\n")
		e, err := api.Find(t.Context(), dir, api.Agent)
		got := e.Address
		if err != nil {
			got = err.Error()
		} else if e.Token != "secret" {
			t.Errorf("%s: token %q", text, e.Token)
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestNoBrig answers as something that is no brig does: nothing of it is believed.
func TestNoBrig(t *testing.T) {
	dir, err := os.MkdirTemp("", "brig")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"sessions":[]}`) })}
	go s.Serve(l)
	defer s.Close()
	c := api.NewClient(api.Endpoint{Socket: l.Addr().String()})
	defer c.Close()
	if _, err := c.Hello(t.Context()); !api.IsProblem(err, api.CodeUnreachable) {
		t.Errorf("Hello: %v", err)
	}
	if _, err := c.Sessions(t.Context(), api.Page{}); !api.IsProblem(err, api.CodeUnreachable) {
		t.Errorf("Sessions: %v", err)
	}
}

func TestProblems(t *testing.T) {
	c, _ := brigAt(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/sessions/busy":
			w.Header().Set("Retry-After", "7")
			problem(w, api.NewProblem(api.CodeBusy, "eight wait", "wait"))
		case "/v1/sessions/plain":
			http.Error(w, "<b>no</b>", http.StatusBadGateway)
		case "/v1/sessions/away":
			http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
		case "/v1/sessions/half":
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, `{"id":`)
		case "/v1/sessions/odd":
			io.WriteString(w, `{"id":7}`)
		}
	}))
	for name, want := range map[string]api.Code{
		"busy": api.CodeBusy, "plain": api.CodeInterruptedIO, "away": api.CodeInterruptedIO, "half": api.CodeInterruptedIO, "odd": api.CodeInterruptedIO,
	} {
		_, err := c.Session(t.Context(), name)
		var p *api.Problem
		if !errors.As(err, &p) || p.Code != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
		if name == "busy" && p.RetryAfter != 7 {
			t.Errorf("retry after %d", p.RetryAfter)
		}
	}
}

// TestNames sends names with every odd character to where they belong.
func TestNames(t *testing.T) {
	var got, path atomic.Value
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /v1/sessions/{session}/files/{path...}", func(w http.ResponseWriter, r *http.Request) {
		got.Store(r.PathValue("path"))
		path.Store(r.PathValue("session"))
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, `{"kind":"file"}`)
	})
	c, _ := brigAt(t, mux)
	for _, name := range []string{"a", "a/b", "ü/%2F?#", "a b+c;d", `q"'\`, "a\nb", "..a", "%", "a:b@c"} {
		if _, err := c.WriteFile(t.Context(), "s/1?", name, strings.NewReader("x"), api.WriteOptions{}); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if got.Load() != name || path.Load() != "s/1?" {
			t.Errorf("%q arrived as %q of %q", name, got.Load(), path.Load())
		}
	}
}

// TestRefusedUpload is told of the refusal instead of a broken connection.
func TestRefusedUpload(t *testing.T) {
	c, _ := brigAt(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		problem(w, api.NewProblem(api.CodeQuota, "the workspace is full", ""))
	}))
	content := &counted{Reader: io.LimitReader(zeros{}, 1<<40)}
	_, err := c.WriteFile(t.Context(), "s", "big", content, api.WriteOptions{Bytes: 1 << 40})
	if !api.IsProblem(err, api.CodeQuota) {
		t.Errorf("%v", err)
	}
	if n := content.n.Load(); n > 1<<20 {
		t.Errorf("%d bytes travelled before the refusal", n)
	}
}

type counted struct {
	io.Reader
	n atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestFollowAgain takes a stream up where it broke, and repeats nothing.
func TestFollowAgain(t *testing.T) {
	var asked []string
	c, _ := brigAt(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Header.Get("Last-Event-ID"))
		if len(asked) == 2 { // too many streams just now
			p := api.NewProblem(api.CodeTooMany, "too many streams", "")
			problem(w, p)
			return
		}
		s := newStream(t, w)
		io.WriteString(w, "retry: 1\n: beat\n\n")
		switch len(asked) {
		case 1:
			s.send(1, api.EventStarted, api.Run{ID: "r"})
			s.send(2, api.EventStdout, api.Chunk{Text: "a"})
			io.WriteString(w, "id: 3\ndata: {") // half an event
		default:
			s.send(2, api.EventStdout, api.Chunk{Text: "a"})
			s.send(3, api.EventStdout, api.Chunk{Text: "b\n"})
			s.send(4, api.EventEnd, api.Run{ID: "r", State: api.RunEnded, Cause: "ok"})
		}
	}))
	var ids []uint64
	if err := c.Follow(t.Context(), "r", 0, func(e api.Event) error { ids = append(ids, e.ID); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(ids) != 4 || ids[0] != 1 || ids[1] != 2 || ids[2] != 3 || ids[3] != 4 {
		t.Errorf("events %v", ids)
	}
	if len(asked) != 3 || asked[1] != "2" || asked[2] != "2" {
		t.Errorf("asked after %q", asked)
	}
}

func TestFollowEnds(t *testing.T) {
	c, _ := brigAt(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/runs/none/events" {
			problem(w, api.NewProblem(api.CodeNotFound, "no such run", ""))
			return
		}
		s := newStream(t, w)
		s.send(1, api.EventStarted, api.Run{ID: "r"})
		if r.URL.Path == "/v1/runs/bad/events" {
			s.send(2, api.EventProblem, api.NewProblem(api.CodeInternal, "a fault", ""))
			return
		}
		<-r.Context().Done()
	}))
	if err := c.Follow(t.Context(), "none", 0, nil); !api.IsProblem(err, api.CodeNotFound) {
		t.Errorf("a run that does not exist: %v", err)
	}
	if err := c.Follow(t.Context(), "bad", 0, nil); !api.IsProblem(err, api.CodeInternal) {
		t.Errorf("a stream that cannot go on: %v", err)
	}
	mine := errors.New("mine")
	if err := c.Follow(t.Context(), "r", 0, func(api.Event) error { return mine }); !errors.Is(err, mine) {
		t.Errorf("an error of emit: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := c.Follow(ctx, "r", 0, func(api.Event) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) || !api.IsProblem(err, api.CodeDeadline) {
		t.Errorf("an end of the context: %v", err)
	}
}

// TestRange asks for parts of files, and reads what the headers say of the whole.
func TestRange(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789"), 10)
	c, _ := brigAt(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"e"`)
		w.Header().Set(api.ModifiedHeader, "2026-11-30T01:02:03.000000004Z")
		http.ServeContent(w, r, "f", mustTime(t), bytes.NewReader(content))
	}))
	for _, x := range []struct {
		r    api.Range
		want string
	}{{api.Range{}, string(content)}, {api.Range{Offset: 95}, "56789"}, {api.Range{Offset: 3, Length: 2}, "34"}, {api.Range{Length: 1}, "0"}} {
		r, f, err := c.ReadFile(t.Context(), "s", "f", x.r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		r.Close()
		if string(got) != x.want || err != nil {
			t.Errorf("%+v: %q %v", x.r, got, err)
		}
		if f.Bytes != 100 || f.ETag != `"e"` || f.Modified.Nanosecond() != 4 {
			t.Errorf("%+v: %+v", x.r, f)
		}
	}
	f, err := c.StatFile(t.Context(), "s", "f")
	if err != nil || f.Bytes != 100 || f.Kind != "file" {
		t.Errorf("%+v %v", f, err)
	}
}

func TestStatProblem(t *testing.T) {
	c, _ := brigAt(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		problem(w, api.NewProblem(api.CodeUnusable, "it is a link", ""))
	}))
	if _, err := c.StatFile(t.Context(), "s", "f"); !api.IsProblem(err, api.CodeUnusable) {
		t.Errorf("%v", err)
	}
}

func TestJSONRoundTrip(t *testing.T) {
	r := api.RunRequest{CodeBase64: []byte("# coding: latin-1\nx = '\xe9'")}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back api.RunRequest
	if err := json.Unmarshal(text, &back); err != nil || !bytes.Equal(back.Source(), r.CodeBase64) {
		t.Errorf("%s %v", text, err)
	}
}
