package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"brig/orchestrator/api"
)

// surface is a brig with a session, for clients that behave badly.
func surface(t *testing.T) (*brig, *api.Client, context.Context) {
	t.Helper()
	b := newBrig(t, "host")
	b.up()
	c := b.client(api.Operator)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	t.Cleanup(func() {
		if b.cmd != nil {
			b.healthy(t, ctx, c)
			b.closeAll(t, "s")
			b.down()
		}
		c.Close()
		cancel()
	})
	if _, _, err := c.OpenSession(ctx, api.SessionRequest{Name: "s"}); err != nil {
		t.Fatal(err)
	}
	return b, c, ctx
}

// healthy tells whether brig serves others as if nothing had happened.
func (b *brig) healthy(t *testing.T, ctx context.Context, c api.Brig) {
	t.Helper()
	r, err := c.Run(ctx, "s", api.RunRequest{Code: "print('well')"}, api.RunOptions{}, nil)
	if err != nil || r.Stdout.Text != "well\n" {
		t.Errorf("a run afterwards: %v, %s %q", err, r.Cause, r.Stdout.Text)
	}
}

// raw sends bytes to the agents' socket and returns the connection.
func (b *brig) raw(t *testing.T, text string) *net.UnixConn {
	t.Helper()
	c, err := net.Dial("unix", filepath.Join(b.runtime, api.AgentSocket))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	return c.(*net.UnixConn)
}

// TestIdleStreams: more clients that only listen than there is room for. Who is let in
// is served, the others are told so, and the operator is never locked out.
func TestIdleStreams(t *testing.T) {
	b, c, ctx := surface(t)
	before := b.measure()
	in, refused := 0, 0
	const asking = "GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
	clients := 700
	if long() {
		clients = 3000
	}
	for range clients {
		conn, err := net.Dial("unix", filepath.Join(b.runtime, api.AgentSocket))
		if err != nil {
			if errors.Is(err, syscall.EAGAIN) { // the queue of the socket is full: the kernel's own refusal
				refused++
				continue
			}
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		if _, err := io.WriteString(conn, asking); err != nil {
			refused++
			continue
		}
		head := make([]byte, 12)
		switch _, err := io.ReadFull(conn, head); {
		case err == nil && strings.HasSuffix(string(head), "200"):
			in++
		case err != nil || strings.HasSuffix(string(head), "429") || strings.HasSuffix(string(head), "503"):
			refused++
		default:
			t.Fatalf("answered with %q", head)
		}
	}
	if in == 0 || refused == 0 {
		t.Errorf("%d let in, %d refused", in, refused)
	}
	b.healthy(t, ctx, c)
	t.Logf("%d let in, %d refused; before: %s; now: %s", in, refused, before, b.measure())
}

// TestSlowReaders: clients that ask for much and read nothing are given up, and nobody waits for them.
func TestSlowReaders(t *testing.T) {
	b, c, ctx := surface(t)
	if _, err := c.WriteFile(ctx, "s", "big", bytes.NewReader(make([]byte, 64<<20)), api.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	op := filepath.Join(b.runtime, api.OperatorSocket)
	for i := range 32 {
		conn, err := net.Dial("unix", op)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		path := "/v1/sessions/s/files/big"
		if i%2 == 0 {
			path = "/v1/events"
		}
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
	}
	for range 5 {
		r, err := c.Run(ctx, "s", api.RunRequest{Code: "print('x' * 500000)"}, api.RunOptions{}, nil)
		if err != nil || r.Stdout.TotalBytes != 500001 {
			t.Fatalf("a run beside them: %v %s", err, r.Cause)
		}
	}
	t.Logf("with slow readers: %s", b.measure())
}

// TestHalfClosed: a client that has said everything and closed its side still gets its
// answer, and one that leaves in the midst of a body leaves nothing.
func TestHalfClosed(t *testing.T) {
	b, c, ctx := surface(t)
	conn := b.raw(t, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if got, err := io.ReadAll(conn); err != nil || !bytes.HasPrefix(got, []byte("HTTP/1.1 200")) {
		t.Errorf("%q %v", got, err)
	}
	for _, left := range []bool{false, true} {
		conn, err := net.Dial("unix", filepath.Join(b.runtime, api.OperatorSocket))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(conn, "PUT /v1/sessions/s/files/half HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\nContent-Length: 1000000\r\n\r\nonly this")
		if left {
			_ = conn.Close()
			continue
		}
		_ = conn.(*net.UnixConn).CloseWrite()
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		if got, _ := io.ReadAll(conn); bytes.HasPrefix(got, []byte("HTTP/1.1 2")) {
			t.Errorf("half of a file was taken: %q", got)
		}
		_ = conn.Close()
	}
	if _, err := c.StatFile(ctx, "s", "half"); !api.IsProblem(err, api.CodeNotFound) {
		t.Errorf("half of a file is there: %v", err)
	}
}

// zeros are so many.
type zeros struct{ left int64 }

func (z *zeros) Read(p []byte) (int, error) {
	if z.left <= 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), z.left)
	clear(p[:n])
	z.left -= n
	return int(n), nil
}

// TestTooMuch: five GiB go into no workspace of two, said beforehand or not, and
// nothing of it stays.
func TestTooMuch(t *testing.T) {
	b, c, ctx := surface(t)
	for _, told := range []int64{5 << 30, 0} {
		size := int64(5 << 30)
		z := &zeros{left: size}
		began := z.left
		_, err := c.WriteFile(ctx, "s", "huge", z, api.WriteOptions{Bytes: told})
		if !api.IsProblem(err, api.CodeQuota) && !api.IsProblem(err, api.CodeTooLarge) {
			t.Errorf("told %d: %v", told, err)
		}
		if told != 0 && began-z.left > 16<<20 {
			t.Errorf("%d bytes travelled of what was refused", began-z.left)
		}
		if _, err := c.StatFile(ctx, "s", "huge"); !api.IsProblem(err, api.CodeNotFound) {
			t.Errorf("something of it is there: %v", err)
		}
	}
	var held int64
	_ = filepath.Walk(b.dir, func(_ string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			held += info.Size()
		}
		return nil
	})
	if held > 512<<20 {
		t.Errorf("%d bytes are left in brig's directories", held)
	}
}

// TestOddNames: every name is taken as it is and comes back so, or refused by name;
// none leads anywhere else.
func TestOddNames(t *testing.T) {
	b, c, ctx := surface(t)
	taken, refused := 0, 0
	names := []string{
		"a b", "a+b", "a%20b", "%2e%2e%2fx", "ä", "日本", "😀", "'\"`$(id)", "a;b", "a&b=c", "a?b#c", "[x]", "{y}", "~", "-rf", ".hidden", "a\\b", "\u202eevil", "a\u00a0b", "NUL", "con.txt",
		"..", "../x", "a/../../x", "/etc/passwd", "", ".", "a//b", "a/./b", "./a", "a/", "\x00", "a\nb", "a\tb", "\x1b[31mred", "\xff\xfe", strings.Repeat("n", 255), strings.Repeat("n", 256), strings.Repeat("d/", 300) + "f",
	}
	for i := 1; i < 128; i++ {
		names = append(names, "c"+string(rune(i))+"d")
	}
	for _, name := range names {
		content := "of " + name
		f, err := c.WriteFile(ctx, "s", name, strings.NewReader(content), api.WriteOptions{})
		var p *api.Problem
		switch {
		case err == nil:
			taken++
			body, _, err := c.ReadFile(ctx, "s", f.Path, api.Range{})
			if err != nil {
				t.Errorf("%q was taken and cannot be read: %v", name, err)
				continue
			}
			got, _ := io.ReadAll(body)
			_ = body.Close()
			if string(got) != content || f.Path != path.Clean(name) {
				t.Errorf("%q came back as %q with %q", name, f.Path, got)
			}
		case errors.As(err, &p) && p.Status >= 400 && p.Status < 500:
			refused++
		default:
			t.Errorf("%q: %v", name, err)
		}
	}
	if taken < 100 || refused < 10 {
		t.Errorf("%d names taken, %d refused", taken, refused)
	}
	t.Logf("%d names taken, %d refused", taken, refused)
	outside, _ := filepath.Glob(filepath.Join(b.dir, "*", "x"))
	if len(outside) > 0 {
		t.Errorf("made outside: %q", outside)
	}
	for _, at := range []string{"/v1/sessions/s/files/../../../etc/passwd", "/v1/sessions/s/files/%2e%2e/%2e%2e/x", "//v1//status", "/v1/sessions/%00/files", "/v1/sessions/s%0d%0aX:y"} {
		conn, err := net.Dial("unix", filepath.Join(b.runtime, api.OperatorSocket))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", at)
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		got, _ := io.ReadAll(conn)
		_ = conn.Close()
		if line, _, _ := strings.Cut(string(got), "\r\n"); !strings.HasPrefix(line, "HTTP/1.1 4") && !strings.HasPrefix(line, "HTTP/1.1 3") {
			t.Errorf("%s: %s", at, line)
		}
	}
}

// TestForeignHeaders: what a browser sends for a page of somebody else's gets nowhere,
// even with the operator's token, and nothing allows that page to read.
func TestForeignHeaders(t *testing.T) {
	b, _, ctx := surface(t)
	address, token := b.endpoint(t)
	for _, c := range []struct {
		name   string
		status int
		header http.Header
		host   string
	}{
		{"rebound name", 421, nil, "evil.example:" + address[strings.LastIndex(address, ":")+1:]},
		{"no port", 421, nil, "localhost"},
		{"other origin", 403, http.Header{"Origin": {"http://evil.example"}}, ""},
		{"other port", 403, http.Header{"Origin": {"http://127.0.0.1:1"}}, ""},
		{"null origin", 403, http.Header{"Origin": {"null"}}, ""},
		{"cross-site", 403, http.Header{"Sec-Fetch-Site": {"cross-site"}}, ""},
		{"same-site", 403, http.Header{"Sec-Fetch-Site": {"same-site"}}, ""},
	} {
		for _, method := range []string{"GET", "POST", "OPTIONS"} {
			r, err := http.NewRequestWithContext(ctx, method, "http://"+address+"/v1/sessions", strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			for k, v := range c.header {
				r.Header[k] = v
			}
			r.Header.Set("Authorization", "Bearer "+token)
			r.Header.Set("Content-Type", "application/json")
			r.Host = c.host
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = answer.Body.Close()
			if answer.StatusCode != c.status {
				t.Errorf("%s, %s: %d, want %d", c.name, method, answer.StatusCode, c.status)
			}
			for k := range answer.Header {
				if strings.HasPrefix(k, "Access-Control-") {
					t.Errorf("%s, %s: the header %s", c.name, method, k)
				}
			}
		}
	}
}

// endpoint is the port, and the operator's token for it.
func (b *brig) endpoint(t *testing.T) (address, token string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(b.runtime, api.OperatorToken))
	if err != nil {
		t.Fatal(err)
	}
	bound, err := os.ReadFile(filepath.Join(b.runtime, api.EndpointFile))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(bound), `"address":"`)
	address, _, _ = strings.Cut(rest, `"`)
	return address, strings.TrimSpace(string(text))
}
