package docker

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"time"

	"github.com/docker/docker/api"
	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/client"

	"brig/orchestrator/sandbox"
)

const (
	reachTimeout = 3 * time.Second // of everything that Probe does, unless the engine shows that it lives
	// busyTimeout is for an engine that answers the simplest question and is slow
	// with the others: starting many containers does that to it.
	busyTimeout  = 12 * time.Second
	slowAfter    = 300 * time.Millisecond // of no answer: then it is asked whether it lives
	placeTimeout = time.Second            // of one place that nobody asked for
	// minimumAPI is Docker 20.10's: a private cgroup namespace can be asked for from there on.
	minimumAPI = "1.41"
)

// engine is one that answered.
type engine struct {
	target
	transport transport
	cli       *client.Client
	http      *http.Transport
	version   types.Version
	info      system.Info
	podman    bool
	feed      *feed // what this engine says by itself
}

func (e *engine) close() {
	_ = e.cli.Close()
	e.http.CloseIdleConnections()
}

// continues makes e go on with the connections of old, if it is the same engine,
// and tells whether it did.
func (e *engine) continues(old *engine) bool {
	if e.endpoint != old.endpoint || e.tls != nil || e.info.ID != old.info.ID || e.version.APIVersion != old.version.APIVersion {
		return false
	}
	e.close()
	e.cli, e.http, e.feed = old.cli, old.http, old.feed
	return true
}

// reach finds the first target that answers like a Docker engine. The error is an
// *sandbox.Unavailable about the first target, or about the first one where
// something was found that does not work.
func reach(patient context.Context, o Options) (*engine, error) {
	ctx, cancel := context.WithTimeoutCause(patient, reachTimeout, context.DeadlineExceeded)
	defer cancel()
	targets, err := discover(o)
	if err != nil {
		return nil, err
	}
	var worst *sandbox.Unavailable
	for _, t := range targets {
		e, failure := try(ctx, patient, t, len(targets) > 1)
		if failure == nil {
			return e, nil
		}
		if worst == nil || worst.Code == "engine-absent" && failure.Code != "engine-absent" {
			worst = failure
		}
	}
	return nil, worst
}

// try asks one target within ctx, and within patient if it is alive and busy.
func try(ctx, patient context.Context, t target, short bool) (*engine, *sandbox.Unavailable) {
	if short {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, placeTimeout, context.DeadlineExceeded)
		defer cancel()
	}
	kind, host, dial, err := t.dial()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, unavailable(t.endpoint, "engine-ssh-missing", nil, "the endpoint needs the ssh command and there is none on PATH", t.undoOr(startCommand))
	case err != nil:
		return nil, unavailable(t.endpoint, "engine-endpoint-invalid", err, "the endpoint is not one that can be used", t.undoOr(startCommand))
	}
	// The SDK hides what the operating system said, so the first connection is ours.
	// Not so with ssh, which always starts and says later what it thinks.
	if kind != transportSSH {
		conn, err := dial(ctx)
		if err != nil {
			return nil, explainDial(ctx, t, kind, err)
		}
		_ = conn.Close()
	}
	cli, transport, err := newClient(host, dial)
	if err != nil {
		return nil, unavailable(t.endpoint, "engine-endpoint-invalid", err, "the endpoint is not one that can be used", t.undoOr(startCommand))
	}
	e := &engine{target: t, transport: kind, cli: cli, http: transport}
	alive := e.watchLife(ctx)
	failure := e.ask(ctx, dial)
	if lives := alive(); lives && failure != nil && failure.Code == "engine-hung" {
		busy, cancel := context.WithTimeoutCause(patient, busyTimeout, context.DeadlineExceeded)
		defer cancel()
		if failure = e.ask(busy, dial); failure != nil && failure.Code == "engine-hung" {
			failure = unavailable(t.endpoint, "engine-busy", nil, "it is alive and did not answer in time", "docker info")
		}
	}
	if failure != nil {
		e.close()
		return nil, failure
	}
	return e, nil
}

func (t target) undoOr(command string) string {
	if t.undo != "" {
		return t.undo
	}
	return command
}

// watchLife pings an engine that is slow to say more. What it returns ends that and
// tells whether there was an answer.
func (e *engine) watchLife(ctx context.Context) func() bool {
	asked, stop := context.WithCancel(ctx)
	lives := make(chan bool, 1)
	go func() {
		slow := time.NewTimer(slowAfter)
		defer slow.Stop()
		select {
		case <-slow.C:
			lives <- e.pings(asked)
		case <-asked.Done():
			lives <- false
		}
	}()
	return func() bool {
		stop()
		return <-lives
	}
}

// pings tells whether the engine answers the one question that needs none of its parts.
func (e *engine) pings(ctx context.Context) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+client.DummyHost+e.basePath()+"/_ping", http.NoBody)
	if err != nil {
		return false
	}
	response, err := e.http.RoundTrip(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// ask makes sure that what answers is a Docker engine that can run brig's containers.
func (e *engine) ask(ctx context.Context, dial dialer) *sandbox.Unavailable {
	version, failure := e.askVersion(ctx, dial)
	if failure != nil {
		return failure
	}
	e.version = version
	e.podman = len(version.Components) > 0 && version.Components[0].Name == "Podman Engine"
	fail := func(code, what, remedy string) *sandbox.Unavailable {
		return unavailable(e.endpoint, code, nil, what, remedy)
	}
	switch {
	case olderThan(version.APIVersion, minimumAPI):
		return fail("engine-too-old", "it is version "+printable(version.Version)+" with API "+printable(version.APIVersion)+", brig needs Docker 20.10 (API "+minimumAPI+") or later", "docker version")
	case olderThan(api.DefaultVersion, version.MinAPIVersion):
		return fail("engine-too-new", "it speaks no API older than "+printable(version.MinAPIVersion)+", this brig speaks none newer than "+api.DefaultVersion, "brig version")
	case version.Os != "linux":
		return fail("engine-not-linux", "it runs "+printable(version.Os)+" containers, brig's are Linux containers", "docker desktop engine use linux")
	}
	if _, err := seccompProfile(version.Arch); err != nil {
		return fail("engine-architecture", "it runs on "+printable(version.Arch)+", brig has a system call filter for amd64 and arm64", "docker version")
	}
	info, err := e.cli.Info(ctx)
	if err != nil {
		return e.explain(ctx, err)
	}
	e.info = info
	return nil
}

// askVersion does by hand what the SDK's Ping and ServerVersion do, because their
// errors do not tell a web server, a TLS server and garbage apart.
func (e *engine) askVersion(ctx context.Context, dial dialer) (types.Version, *sandbox.Unavailable) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+client.DummyHost+e.basePath()+"/version", http.NoBody)
	if err != nil {
		return types.Version{}, unavailable(e.endpoint, "engine-endpoint-invalid", err, "the endpoint is not one that can be used", e.undoOr(startCommand))
	}
	response, err := e.http.RoundTrip(request)
	if err != nil {
		if e.transport == transportTCP && ctx.Err() == nil && speaksTLS(ctx, dial) {
			return types.Version{}, e.wantsTLS()
		}
		return types.Version{}, e.explain(ctx, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return types.Version{}, e.explain(ctx, err)
	}
	var version types.Version
	if response.StatusCode == http.StatusOK && json.Unmarshal(body, &version) == nil && version.APIVersion != "" {
		return version, nil
	}
	if e.transport == transportTCP && speaksTLS(ctx, dial) {
		return types.Version{}, e.wantsTLS()
	}
	return types.Version{}, unavailable(e.endpoint, "engine-not-docker", nil, "something answers there that is no Docker engine (HTTP status "+response.Status+")", e.undoOr("docker version"))
}

func (e *engine) basePath() string {
	if e.transport != transportTCP && e.transport != transportTLS {
		return ""
	}
	if u, err := client.ParseHostURL(e.cli.DaemonHost()); err == nil {
		return strings.TrimSuffix(u.Path, "/")
	}
	return ""
}

func (e *engine) wantsTLS() *sandbox.Unavailable {
	return unavailable(e.endpoint, "engine-tls-required", nil, "it wants an encrypted connection and none is configured", "export DOCKER_TLS_VERIFY=1")
}

// speaksTLS asks the peer in its own language; what it is called is of no interest here.
func speaksTLS(ctx context.Context, dial dialer) bool {
	conn, err := dial(ctx)
	if err != nil {
		return false
	}
	defer conn.Close()
	err = tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(ctx) //nolint:gosec // nothing is sent on it
	var alert tls.AlertError
	return err == nil || errors.As(err, &alert)
}

func olderThan(version, than string) bool {
	return version != "" && than != "" && compareVersions(version, than) < 0
}
