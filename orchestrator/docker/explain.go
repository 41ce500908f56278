package docker

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"

	"brig/orchestrator/sandbox"
)

// explainDial names why the first connection failed.
func explainDial(ctx context.Context, t target, kind transport, err error) *sandbox.Unavailable {
	fail := func(code, what, remedy string) *sandbox.Unavailable {
		u := unavailable(t.endpoint, code, nil, what, remedy)
		u.Err = err
		return u
	}
	path := strings.TrimPrefix(t.endpoint, "unix://")
	var dns *net.DNSError
	switch {
	case kind == transportSSH:
		return unavailable(t.endpoint, "engine-ssh", err, "ssh could not be started", sshCommand(t.endpoint))
	case ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded):
		return fail("engine-hung", "nothing answered in time", t.undoOr(restartCommand))
	case errors.Is(err, fs.ErrPermission):
		return fail("engine-permission", "this user may not open the socket", permissionCommand)
	case errors.Is(err, fs.ErrNotExist):
		return fail("engine-absent", "the socket does not exist", t.undoOr(startCommand))
	case kind == transportUnix && notASocket(path):
		return fail("engine-not-socket", "the path exists and is not a socket", "ls -l "+path)
	case kind == transportUnix && refused(err):
		return fail("engine-stale-socket", "the socket is there but nothing listens on it", t.undoOr(restartCommand))
	case refused(err):
		return fail("engine-refused", "nothing listens at that address", t.undoOr(startCommand))
	case errors.As(err, &dns):
		return fail("engine-host-unknown", "the host name "+dns.Name+" is not known", t.undoOr(startCommand))
	}
	if failure := explainTLS(t.endpoint, err, t.undoOr("docker version")); failure != nil {
		return failure
	}
	return unavailable(t.endpoint, "engine-unreachable", err, "the connection failed", t.undoOr("docker version"))
}

func notASocket(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode()&fs.ModeSocket == 0
}

// explain names why a request failed on a connection that could be opened.
func (e *engine) explain(ctx context.Context, err error) *sandbox.Unavailable {
	if ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return withCause(unavailable(e.endpoint, "engine-hung", nil, "it accepts connections and does not answer", e.undoOr(restartCommand)), err)
	}
	if failure := explainTLS(e.endpoint, err, e.undoOr("docker version")); failure != nil {
		return failure
	}
	if e.transport == transportSSH {
		return unavailable(e.endpoint, "engine-ssh", err, "the connection through ssh failed", sshCommand(e.endpoint))
	}
	switch {
	case isAnswer(err):
		return unavailable(e.endpoint, "engine-failing", err, "it is a Docker engine and answers with an error", "docker info")
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || broken(err):
		return unavailable(e.endpoint, "engine-closed", err, "it closed the connection before it had answered", e.undoOr(restartCommand))
	}
	if e.version.APIVersion != "" { // it is one; the SDK does not say how its answer broke off
		return unavailable(e.endpoint, "engine-failing", err, "it is a Docker engine and its answer cannot be read", "docker info")
	}
	return unavailable(e.endpoint, "engine-not-docker", err, "what answers there does not speak the engine's protocol", e.undoOr("docker version"))
}

func withCause(u *sandbox.Unavailable, err error) *sandbox.Unavailable {
	u.Err = err
	return u
}

func explainTLS(endpoint string, err error, remedy string) *sandbox.Unavailable {
	var (
		record tls.RecordHeaderError
		verify *tls.CertificateVerificationError
		age    x509.CertificateInvalidError
		name   x509.HostnameError
		alert  tls.AlertError
		remote *net.OpError
	)
	switch {
	case errors.As(err, &record):
		return withCause(unavailable(endpoint, "engine-tls-mismatch", nil, "an encrypted connection is configured and the engine does not speak TLS", remedy), err)
	case errors.As(err, &age) && age.Reason == x509.Expired:
		return withCause(unavailable(endpoint, "engine-tls-expired", nil, "its certificate is not valid at this time: "+printable(age.Detail), showCertificate(endpoint)+" | openssl x509 -noout -dates"), err)
	case errors.As(err, &name):
		return withCause(unavailable(endpoint, "engine-tls-name", nil, "its certificate is for another name", showCertificate(endpoint)+" | openssl x509 -noout -ext subjectAltName"), err)
	case errors.As(err, &verify):
		return unavailable(endpoint, "engine-tls-untrusted", verify.Err, "its certificate is not trusted", remedy)
	case errors.As(err, &alert), errors.As(err, &remote) && remote.Op == "remote error":
		return unavailable(endpoint, "engine-tls-refused", err, "it refused this client's certificate or TLS version", remedy)
	}
	return nil
}

// showCertificate is the command that prints what the other side presents.
func showCertificate(endpoint string) string {
	_, address, _ := strings.Cut(endpoint, "://")
	return "openssl s_client -connect " + oneLine(address, 200) + " </dev/null"
}

func sshCommand(endpoint string) string { return "docker -H " + endpoint + " version" }
