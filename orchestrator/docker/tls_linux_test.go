package docker

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	cliendpoint "github.com/docker/cli/cli/context/docker"
	"github.com/docker/cli/cli/context/store"

	"brig/images"
	"brig/orchestrator/docker/enginetest"
	"brig/orchestrator/sandbox"
)

// issuer is a certificate authority of a test.
type issuer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// pair is a certificate with its key, as files hold them.
type pair struct{ cert, key []byte }

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{}
	p := i.issue(t, func(c *x509.Certificate) {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
	})
	i.pem = p.cert
	block, _ := pem.Decode(p.cert)
	var err error
	if i.cert, err = x509.ParseCertificate(block.Bytes); err != nil {
		t.Fatal(err)
	}
	block, _ = pem.Decode(p.key)
	if i.key, err = x509.ParseECPrivateKey(block.Bytes); err != nil {
		t.Fatal(err)
	}
	return i
}

// issue makes a certificate for this machine, or the issuer's own.
func (i *issuer) issue(t *testing.T, change func(*x509.Certificate)) pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	wanted := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "brig test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	change(wanted)
	parent, signer := i.cert, i.key
	if parent == nil {
		parent, signer = wanted, key
	}
	raw, err := x509.CreateCertificate(rand.Reader, wanted, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pair{
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}),
	}
}

func asIs(*x509.Certificate) {}

func expired(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }

func elsewhere(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{"elsewhere.invalid"} }

// serverTLS wants a certificate of the same issuer from every client.
func (i *issuer) serverTLS(t *testing.T, p pair) *tls.Config {
	t.Helper()
	own, err := tls.X509KeyPair(p.cert, p.key)
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AddCert(i.cert)
	return &tls.Config{Certificates: []tls.Certificate{own}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12}
}

// certPathOf is a directory as DOCKER_CERT_PATH names one.
func certPathOf(t *testing.T, ca []byte, client *pair) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string][]byte{"ca.pem": ca}
	if client != nil {
		files["cert.pem"], files["key.pem"] = client.cert, client.key
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestTLSWithCertificates: whatever is wrong with a certificate has a name of its own.
func TestTLSWithCertificates(t *testing.T) {
	ours, theirs := newIssuer(t), newIssuer(t)
	good := ours.issue(t, asIs)
	old := ours.issue(t, expired)
	foreign := theirs.issue(t, asIs)
	for _, c := range []struct {
		name   string
		server pair
		ca     []byte
		client *pair
		plain  bool
		code   string // empty: usable
	}{
		{name: "right", server: good, ca: ours.pem, client: &good},
		{name: "another authority", server: good, ca: theirs.pem, client: &good, code: "engine-tls-untrusted"},
		{name: "expired", server: old, ca: ours.pem, client: &good, code: "engine-tls-expired"},
		{name: "another name", server: ours.issue(t, elsewhere), ca: ours.pem, client: &good, code: "engine-tls-name"},
		{name: "no client certificate", server: good, ca: ours.pem, code: "engine-tls-refused"},
		{name: "client certificate of another authority", server: good, ca: ours.pem, client: &foreign, code: "engine-tls-refused"},
		{name: "client certificate expired", server: good, ca: ours.pem, client: &old, code: "engine-tls-refused"},
		{name: "plain text", server: good, plain: true, code: "engine-tls-required"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := fakeEngine(t, enginetest.Options{TCP: true, TLS: ours.serverTLS(t, c.server)})
			variables := []string{"DOCKER_HOST", e.Endpoint()}
			if !c.plain {
				variables = append(variables, "DOCKER_TLS_VERIFY", "1", "DOCKER_CERT_PATH", certPathOf(t, c.ca, c.client))
			}
			b := newBackend(t, func(o *Options) { o.Env = env(variables...) })
			facts, err := b.Probe(limited(t))
			if c.code == "" {
				if err != nil || facts.Endpoint != e.Endpoint() || facts.Source != "DOCKER_HOST" {
					t.Errorf("%+v, %v", facts, err)
				}
				return
			}
			var u *sandbox.Unavailable
			if !errors.As(err, &u) || u.Code != c.code || u.Remedy == "" {
				t.Errorf("want %s, got %v", c.code, err)
			}
		})
	}
}

// TestAttachIsBoundedOverTLS: the guard of a hijacked stream holds there too, because
// the SDK is never told that there is TLS.
func TestAttachIsBoundedOverTLS(t *testing.T) {
	ours := newIssuer(t)
	good := ours.issue(t, asIs)
	e := fakeEngine(t, enginetest.Options{TCP: true, TLS: ours.serverTLS(t, good)})
	b := fakeBackend(t, e, func(o *Options) {
		o.Endpoint = ""
		o.Env = env("DOCKER_HOST", e.Endpoint(), "DOCKER_TLS_VERIFY", "1", "DOCKER_CERT_PATH", certPathOf(t, ours.pem, &good))
	})
	nextWorks(t, b)
	held := e.Inject(enginetest.Fault{Op: enginetest.Attach, Hold: true})
	defer held.Clear()
	ctx, cancel := context.WithTimeout(limited(t), 500*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := b.Prepare(ctx, coreBase(), t.TempDir()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("prepare: %v", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
	held.Clear()
	awaitGoneFrom(t, e)
}

// TestThroughContextWithTLS is the whole way of a context with certificates to the
// engine of this machine: a session over mutual TLS.
func TestThroughContextWithTLS(t *testing.T) {
	local := engineBackend(t, images.Core)
	engine, err := local.current(limited(t))
	if err != nil {
		t.Fatal(err)
	}
	socket := strings.TrimPrefix(engine.endpoint, "unix://")
	ours := newIssuer(t)
	good := ours.issue(t, asIs)
	l, err := tls.Listen("tcp", "127.0.0.1:0", ours.serverTLS(t, good))
	if err != nil {
		t.Fatal(err)
	}
	var forwarding sync.WaitGroup
	defer forwarding.Wait()
	defer l.Close()
	forwarding.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			forwarding.Go(func() { forward(conn, socket) })
		}
	})
	home := t.TempDir()
	contexts := store.New(filepath.Join(home, ".docker", "contexts"), store.NewConfig(
		func() any { return &map[string]any{} },
		store.EndpointTypeGetter(cliendpoint.DockerEndpoint, func() any { return &cliendpoint.EndpointMeta{} }),
	))
	host := "tcp://" + l.Addr().String()
	if err := contexts.CreateOrUpdate(store.Metadata{
		Name: "far", Metadata: map[string]any{},
		Endpoints: map[string]any{cliendpoint.DockerEndpoint: cliendpoint.EndpointMeta{Host: host}},
	}); err != nil {
		t.Fatal(err)
	}
	if err := contexts.ResetEndpointTLSMaterial("far", cliendpoint.DockerEndpoint, &store.EndpointTLSData{
		Files: map[string][]byte{"ca.pem": ours.pem, "cert.pem": good.cert, "key.pem": good.key},
	}); err != nil {
		t.Fatal(err)
	}
	b := newBackend(t, func(o *Options) { o.Env = env("HOME", home, "DOCKER_CONTEXT", "far") })
	facts, err := b.Probe(limited(t))
	if err != nil || facts.Endpoint != host || !strings.Contains(facts.Source, "far") {
		t.Fatalf("%+v, %v", facts, err)
	}
	i := session(t, b, coreBase(), t.TempDir())
	if o := ok(t, i, "print('x' * 100_000)"); o.stdout.Len() != 100_001 {
		t.Errorf("%d bytes came back", o.stdout.Len())
	}
	if err := errors.Join(i.Close(limited(t)), b.Close(limited(t))); err != nil {
		t.Error(err)
	}
}
