package server

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"brig/orchestrator/api"
)

// ask writes a request with the agent's token and leaves the connection open.
func (w *world) ask(t *testing.T, method, path, rest string) (net.Conn, *bufio.Reader) {
	t.Helper()
	c := w.dial(t, "tcp")
	text := method + " " + path + " HTTP/1.1\r\nHost: " + w.bound.Address + "\r\n" + bearer(w.agent) + "\r\n" + rest
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	return c, bufio.NewReader(c)
}

func TestPanics(t *testing.T) {
	w := newWorld(t)
	w.mux.HandleFunc("GET /before", func(http.ResponseWriter, *http.Request) { panic("secret") })
	w.mux.HandleFunc("GET /amid", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(rw, "half")
		panic("secret")
	})
	w.serve(t)
	r := w.get(t, "tcp", "/before", bearer(w.agent))
	if r.problem.Code != api.CodeInternal || strings.Contains(r.text, "secret") || r.problem.Instance != r.Header.Get(RequestIDHeader) {
		t.Errorf("%d %s", r.StatusCode, r.text)
	}
	_, in := w.ask(t, "GET", "/amid", "\r\n")
	if all, err := io.ReadAll(in); err != nil && !strings.HasSuffix(string(all), "half") {
		t.Errorf("%v: %q", err, all)
	}
	if r := readReply(t, bufio.NewReader(strings.NewReader("")), "GET"); r != nil {
		t.Error("an answer from nothing")
	}
	if r := w.get(t, "tcp", "/healthz"); r.StatusCode != 200 {
		t.Errorf("after that: %d", r.StatusCode)
	}
}

// The deadline of a body is not the run's: the client has sent everything and waits.
func TestLongAnswerAfterABody(t *testing.T) {
	w := newWorld(t)
	w.bodyGap, w.writeGap = 50*time.Millisecond, 50*time.Millisecond
	w.mux.HandleFunc("POST /run", func(rw http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			t.Error(err)
		}
		rc := http.NewResponseController(rw) // as the library does that reads bodies
		_ = rc.SetReadDeadline(time.Now().Add(time.Millisecond))
		_ = rc.SetWriteDeadline(time.Now().Add(time.Millisecond))
		select {
		case <-r.Context().Done():
			t.Error("the run was cancelled")
		case <-time.After(300 * time.Millisecond):
		}
		_, _ = io.WriteString(rw, "done")
	})
	w.serve(t)
	for range 2 { // the second on a connection that has been used
		_, in := w.ask(t, "POST", "/run", "Content-Length: 2\r\n\r\n{}")
		if r := readReply(t, in, "POST"); r == nil || r.text != "done" {
			t.Errorf("%+v", r)
		}
	}
}

// Closing a request that waits, and closing half of it, tells the handler.
func TestClientGoes(t *testing.T) {
	for name, leave := range map[string]func(net.Conn) error{
		"close": net.Conn.Close, "half": func(c net.Conn) error { return c.(*net.TCPConn).CloseWrite() },
	} {
		w := newWorld(t)
		gone := make(chan struct{})
		w.mux.HandleFunc("POST /run", func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body)
			<-r.Context().Done()
			close(gone)
		})
		w.serve(t)
		c, _ := w.ask(t, "POST", "/run", "Content-Length: 2\r\n\r\n{}")
		if err := leave(c); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		<-gone
	}
}

// A header, and a body, that do not come are not waited for.
func TestSlowSenders(t *testing.T) {
	w := newWorld(t)
	w.bodyGap = 50 * time.Millisecond
	w.http.ReadHeaderTimeout = 50 * time.Millisecond
	failed := make(chan error, 1)
	w.mux.HandleFunc("POST /run", func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		failed <- err
	})
	w.mux.HandleFunc("POST /unread", func(http.ResponseWriter, *http.Request) {})
	w.serve(t)
	c := w.dial(t, "tcp")
	if _, err := io.WriteString(c, "GET /who HTTP/1.1\r\nHost: "); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(c); err != nil || len(rest) != 0 {
		t.Errorf("half a header: %v %q", err, rest)
	}
	w.ask(t, "POST", "/run", "Content-Length: 10\r\n\r\n{")
	if err := <-failed; err == nil || !isTimeout(err) {
		t.Errorf("half a body: %v", err)
	}
	_, in := w.ask(t, "POST", "/unread", "Content-Length: 10\r\n\r\n{")
	if r := readReply(t, in, "POST"); r == nil || r.StatusCode != 200 {
		t.Errorf("half a body that nobody reads: %+v", r)
	}
	if _, err := in.ReadByte(); err == nil {
		t.Error("the connection goes on in the middle of a body")
	}
}

// A refusal, and an answer that is sent before the body was read, do not wait for a
// body that does not come: net/http reads it first.
func TestBodyThatNeverComes(t *testing.T) {
	w := newWorld(t)
	w.bodyGap = 50 * time.Millisecond
	w.mux.HandleFunc("POST /early", func(out http.ResponseWriter, _ *http.Request) {
		if err := http.NewResponseController(out).Flush(); err != nil {
			t.Error(err)
		}
	})
	w.serve(t)
	cases := map[string]struct {
		header string
		want   int
	}{
		"another media type": {"Content-Type: text/plain\r\n", http.StatusUnsupportedMediaType},
		"another site":       {"Origin: http://a.example\r\n", http.StatusForbidden},
		"a header twice":     {"Origin: null\r\nOrigin: null\r\n", http.StatusBadRequest},
		"sent early":         {"", http.StatusOK},
	}
	answers := map[string]*bufio.Reader{}
	for name, c := range cases {
		_, answers[name] = w.ask(t, "POST", "/early", c.header+"Content-Length: 10\r\n\r\n{")
	}
	for name, c := range cases {
		if r := readReply(t, answers[name], "POST"); r == nil || r.StatusCode != c.want {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func isTimeout(err error) bool {
	n, ok := err.(interface{ Timeout() bool })
	return ok && n.Timeout()
}

// Whoever does not read an answer loses it, however large, and holds nobody.
func TestSlowReader(t *testing.T) {
	w := newWorld(t)
	w.writeGap = 100 * time.Millisecond
	failed := make(chan error, 1)
	w.mux.HandleFunc("GET /large", func(rw http.ResponseWriter, _ *http.Request) {
		_, err := rw.Write(make([]byte, 64<<20))
		failed <- err
	})
	w.serve(t)
	w.ask(t, "GET", "/large", "\r\n")
	if err := <-failed; err == nil {
		t.Error("64 MiB were written to nobody")
	}
	// One who reads steadily gets it all, in whatever time.
	_, in := w.ask(t, "GET", "/large", "Connection: close\r\n\r\n")
	n := 0
	for part := make([]byte, 1<<20); ; {
		read, err := in.Read(part)
		if n += read; err != nil {
			break
		}
	}
	if err := <-failed; err != nil || n < 64<<20 {
		t.Errorf("%v after %d bytes", err, n)
	}
}

// Who comes when there is no room hears so.
func TestRoom(t *testing.T) {
	w := newWorld(t)
	w.room = func(from) int64 { return 3 }
	w.serve(t)
	var held []net.Conn
	for range 3 {
		c := w.dial(t, "tcp")
		if _, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: "+w.bound.Address+"\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if r := readReply(t, bufio.NewReader(c), "GET"); r == nil || r.StatusCode != 200 {
			t.Fatalf("%+v", r)
		}
		held = append(held, c)
	}
	r := w.get(t, "tcp", "/healthz")
	if r.problem.Code != api.CodeTooMany || r.Header.Get("Retry-After") == "" {
		t.Errorf("%d %s", r.StatusCode, r.text)
	}
	if r := w.get(t, api.OperatorSocket, "/healthz"); r.StatusCode != 200 {
		t.Errorf("the operator has no room of his own: %d", r.StatusCode)
	}
	_ = held[0].Close()
	for r = w.get(t, "tcp", "/healthz"); r.StatusCode != 200; r = w.get(t, "tcp", "/healthz") {
		time.Sleep(10 * time.Millisecond)
	}
}

// What is under way ends in its own time, what is new is refused, and nothing stays.
func TestShutdown(t *testing.T) {
	w := newWorld(t)
	begun, end := make(chan struct{}), make(chan struct{})
	w.mux.HandleFunc("GET /run", func(rw http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-end
		_, _ = io.WriteString(rw, "done")
	})
	w.mux.HandleFunc("GET /stream", func(_ http.ResponseWriter, _ *http.Request) { <-w.Draining() })
	w.serve(t)
	_, running := w.ask(t, "GET", "/run", "\r\n")
	<-begun
	_, streaming := w.ask(t, "GET", "/stream", "\r\n")
	c, later := w.ask(t, "GET", "/healthz", "\r\n")
	if r := readReply(t, later, "GET"); r == nil || r.StatusCode != 200 {
		t.Fatalf("%+v", r)
	}
	w.Drain()
	if _, err := io.WriteString(c, "GET /run HTTP/1.1\r\nHost: "+w.bound.Address+"\r\n"+bearer(w.agent)+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if r := readReply(t, later, "GET"); r == nil || r.problem.Code != api.CodeShuttingDown {
		t.Errorf("something new: %+v", r)
	}
	if r := readReply(t, streaming, "GET"); r == nil || r.StatusCode != 200 {
		t.Errorf("the stream: %+v", r)
	}
	close(end)
	if r := readReply(t, running, "GET"); r == nil || r.text != "done" {
		t.Errorf("what was under way: %+v", r)
	}
	if err := w.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if left := files(t, w.dir); len(left) != 0 {
		t.Errorf("left behind: %q", left)
	}
}

// Who does not end in time is cancelled.
func TestShutdownHurries(t *testing.T) {
	w := newWorld(t)
	begun := make(chan struct{})
	w.mux.HandleFunc("GET /run", func(_ http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
	})
	w.serve(t)
	w.ask(t, "GET", "/run", "\r\n")
	<-begun
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := w.Shutdown(ctx); err != nil {
		t.Error(err)
	}
}
