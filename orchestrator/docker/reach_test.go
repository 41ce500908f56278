package docker

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"brig/orchestrator/sandbox"
)

// env is an environment with nothing but these variables.
func env(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

// unreachable probes and expects an explanation within the documented bound.
func unreachable(t *testing.T, environment func(string) (string, bool), change ...func(*Options)) *sandbox.Unavailable {
	t.Helper()
	b := newBackend(t, append([]func(*Options){func(o *Options) { o.Env = environment }}, change...)...)
	began := time.Now()
	_, err := b.Probe(t.Context())
	if took := time.Since(began); took > reachTimeout+2*time.Second {
		t.Errorf("the probe took %s", took)
	}
	var u *sandbox.Unavailable
	if !errors.As(err, &u) {
		t.Fatalf("probe: %v", err)
	}
	if u.Backend != sandbox.Docker || u.Remedy == "" || !strings.HasPrefix(u.Reason, "docker engine not reachable at ") {
		t.Errorf("incomplete: %+v", u)
	}
	return u
}

func serveHung(l net.Listener) {
	var held []net.Conn
	for {
		conn, err := l.Accept()
		if err != nil {
			for _, c := range held {
				_ = c.Close()
			}
			return
		}
		held = append(held, conn)
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestReachWhatIsNoEngine(t *testing.T) {
	answer := func(body string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) })
	}
	version := func(v, api, least, system, arch string) http.Handler {
		return answer(fmt.Sprintf(`{"Version":%q,"ApiVersion":%q,"MinAPIVersion":%q,"Os":%q,"Arch":%q}`, v, api, least, system, arch))
	}
	for _, c := range []struct {
		name    string
		handler http.Handler
		code    string
	}{
		{"web server", answer("<h1>hello</h1>"), "engine-not-docker"},
		{"other json", answer(`{"ok":true}`), "engine-not-docker"},
		{"not found", http.NotFoundHandler(), "engine-not-docker"},
		{"redirect", http.RedirectHandler("/elsewhere", http.StatusFound), "engine-not-docker"},
		{"too old", version("19.03.15", "1.40", "1.12", "linux", "amd64"), "engine-too-old"},
		{"too new", version("99.0", "9.99", "9.0", "linux", "amd64"), "engine-too-new"},
		{"windows containers", version("28.0", "1.48", "1.24", "windows", "amd64"), "engine-not-linux"},
		{"architecture", version("28.0", "1.48", "1.24", "linux", "riscv64"), "engine-architecture"},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewServer(c.handler)
			defer server.Close()
			u := unreachable(t, env("DOCKER_HOST", "tcp://"+server.Listener.Addr().String()))
			if u.Code != c.code {
				t.Errorf("%s: %s", u.Code, u.Reason)
			}
		})
	}
}

func TestReachBrokenPeers(t *testing.T) {
	t.Run("hung", func(t *testing.T) {
		l := listen(t)
		go serveHung(l)
		if u := unreachable(t, env("DOCKER_HOST", "tcp://"+l.Addr().String())); u.Code != "engine-hung" {
			t.Errorf("%s: %s", u.Code, u.Reason)
		}
	})
	t.Run("garbage", func(t *testing.T) {
		l := listen(t)
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(conn, "SSH-2.0-OpenSSH_9.2p1\r\n\x00\x01\x02")
				_ = conn.Close()
			}
		}()
		if u := unreachable(t, env("DOCKER_HOST", "tcp://"+l.Addr().String())); u.Code != "engine-not-docker" {
			t.Errorf("%s: %s", u.Code, u.Reason)
		}
	})
	t.Run("refused", func(t *testing.T) {
		l := listen(t)
		address := l.Addr().String()
		_ = l.Close()
		if u := unreachable(t, env("DOCKER_HOST", "tcp://"+address)); u.Code != "engine-refused" {
			t.Errorf("%s: %s", u.Code, u.Reason)
		}
	})
	t.Run("scheme", func(t *testing.T) {
		if u := unreachable(t, env("DOCKER_HOST", "gopher://somewhere")); u.Code != "engine-endpoint-invalid" {
			t.Errorf("%s: %s", u.Code, u.Reason)
		}
	})
}

func TestReachTLS(t *testing.T) {
	serve := func(start func(*httptest.Server), settings *tls.Config) *httptest.Server {
		server := httptest.NewUnstartedServer(http.NotFoundHandler())
		server.TLS, server.Config.ErrorLog = settings, log.New(io.Discard, "", 0)
		start(server)
		t.Cleanup(server.Close)
		return server
	}
	plain := serve((*httptest.Server).Start, nil)
	secure := serve((*httptest.Server).StartTLS, nil)
	picky := serve((*httptest.Server).StartTLS, &tls.Config{ClientAuth: tls.RequireAnyClientCert})
	address := func(s *httptest.Server) string { return "tcp://" + s.Listener.Addr().String() }

	t.Run("wanted and not configured", func(t *testing.T) {
		if u := unreachable(t, env("DOCKER_HOST", address(secure))); u.Code != "engine-tls-required" {
			t.Errorf("%s: %s", u.Code, u.Reason)
		}
	})
	t.Run("configured and not spoken", func(t *testing.T) {
		if u := unreachable(t, env("DOCKER_HOST", address(plain), "DOCKER_TLS", "1", "DOCKER_CERT_PATH", t.TempDir())); u.Code != "engine-tls-mismatch" {
			t.Errorf("%s: %s", u.Code, u.Reason)
		}
	})
	t.Run("untrusted", func(t *testing.T) {
		if u := unreachable(t, env("DOCKER_HOST", address(secure), "DOCKER_TLS_VERIFY", "1", "DOCKER_CERT_PATH", t.TempDir())); u.Code != "engine-tls-untrusted" {
			t.Errorf("%s: %s", u.Code, u.Reason)
		}
	})
	t.Run("trusted by its own certificate", func(t *testing.T) { // the control of the above
		if u := unreachable(t, env("DOCKER_HOST", address(secure), "DOCKER_TLS_VERIFY", "1", "DOCKER_CERT_PATH", certificates(t, secure))); u.Code != "engine-not-docker" {
			t.Errorf("%s: %s", u.Code, u.Reason)
		}
	})
	t.Run("files that are none", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "ca.pem"), []byte("no certificate"), 0o600); err != nil {
			t.Fatal(err)
		}
		if u := unreachable(t, env("DOCKER_HOST", address(secure), "DOCKER_TLS_VERIFY", "1", "DOCKER_CERT_PATH", dir)); u.Code != "engine-tls-files" {
			t.Errorf("%s: %s", u.Code, u.Reason)
		}
	})
	t.Run("client refused", func(t *testing.T) {
		u := unreachable(t, env("DOCKER_HOST", address(picky), "DOCKER_TLS", "1", "DOCKER_CERT_PATH", t.TempDir()))
		if u.Code != "engine-tls-refused" {
			t.Errorf("%s: %s", u.Code, u.Reason)
		}
	})
	t.Run("spoken and no engine behind it", func(t *testing.T) {
		u := unreachable(t, env("DOCKER_HOST", address(secure), "DOCKER_TLS", "1", "DOCKER_CERT_PATH", t.TempDir()))
		if u.Code != "engine-not-docker" {
			t.Errorf("%s: %s", u.Code, u.Reason)
		}
	})
}

// certificates writes the ca.pem of a server.
func certificates(t *testing.T, s *httptest.Server) string {
	t.Helper()
	dir := t.TempDir()
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(filepath.Join(dir, "ca.pem"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestAttachIsBounded: an engine that accepts an attach and never answers holds
// nobody, although the SDK would wait for ever.
func TestAttachIsBounded(t *testing.T) {
	l := listen(t)
	go serveHung(l)
	dial := netDialer("tcp", l.Addr().String())
	cli, transport, err := newClient("tcp://"+l.Addr().String(), dial)
	if err != nil {
		t.Fatal(err)
	}
	defer transport.CloseIdleConnections()
	cli.NegotiateAPIVersionPing(pingOf("1.41"))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err = attach(ctx, cli, "some-container")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("attach: %v", err)
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("it took %s", took)
	}
}

// An engine that is alive and slow is waited for, and one that stays silent beyond
// that is called busy: nobody should restart it.
func TestReachBusyEngine(t *testing.T) {
	var versions atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/_ping"):
			w.WriteHeader(http.StatusOK)
		case versions.Add(1) == 1:
			<-r.Context().Done() // silent until brig gives up
		default:
			// Refused once it has answered, so no more is needed of it.
			fmt.Fprint(w, `{"Version":"28.0","ApiVersion":"1.48","MinAPIVersion":"1.24","Os":"linux","Arch":"riscv64"}`)
		}
	}))
	defer server.Close()
	if u := unreachable(t, env("DOCKER_HOST", "tcp://"+server.Listener.Addr().String())); u.Code != "engine-architecture" {
		t.Errorf("%s: %s", u.Code, u.Reason)
	}
}
