package docker

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/containerd/errdefs"
	"github.com/docker/cli/cli/config"
	cliendpoint "github.com/docker/cli/cli/context/docker"
	"github.com/docker/cli/cli/context/store"
	"github.com/docker/go-connections/tlsconfig"

	"brig/orchestrator/sandbox"
)

// environment is how this package reads a variable: the process's own is read
// under cmd only.
type environment func(name string) (string, bool)

func (e environment) get(name string) string {
	value, _ := e(name)
	return value
}

// discover lists where to look for the engine, in the order of the docker CLI:
// what the caller names, DOCKER_HOST, DOCKER_CONTEXT, the CLI's current context,
// and only when none of them says anything the usual places of this system.
// An error is an *sandbox.Unavailable.
func discover(o Options) ([]target, error) {
	env := environment(o.Env)
	if o.Endpoint != "" {
		return []target{{endpoint: o.Endpoint, source: "docker.endpoint", undo: "brig config show docker.endpoint"}}, nil
	}
	if o.Context != "" {
		targets, err := fromContext(env, o.Context, "docker.context", "brig config show docker.context")
		var known *sandbox.Unavailable
		if errors.As(err, &known) {
			known.Settings = true // brig's own setting names it; the docker CLI's say nothing about brig
		}
		return targets, err
	}
	if host := env.get("DOCKER_HOST"); host != "" {
		config, err := tlsFromEnvironment(env)
		if err != nil {
			return nil, unavailable(host, "engine-tls-files", err, "the certificates that DOCKER_CERT_PATH names cannot be used", "ls -l "+certPath(env))
		}
		return []target{{endpoint: host, source: "DOCKER_HOST", undo: "unset DOCKER_HOST", tls: config}}, nil
	}
	if name := env.get("DOCKER_CONTEXT"); name != "" {
		return fromContext(env, name, "DOCKER_CONTEXT", "unset DOCKER_CONTEXT")
	}
	dir := configDir(env)
	if dir == "" {
		return usualPlaces(env)
	}
	file, err := config.Load(dir)
	if err != nil {
		name := filepath.Join(dir, config.ConfigFileName)
		return nil, unavailable("the current context", "cli-config-broken", err, "the docker CLI's "+name+" cannot be read", "docker --config "+dir+" context ls")
	}
	if file.CurrentContext != "" {
		return fromContext(env, file.CurrentContext, "the docker CLI's current context", "docker context use default")
	}
	return usualPlaces(env)
}

// fromContext reads a context of the docker CLI. "default" is not in its store: it
// means the usual places.
func fromContext(env environment, name, source, undo string) ([]target, error) {
	if name == "default" {
		return usualPlaces(env)
	}
	where := "context " + name
	dir := configDir(env)
	if dir == "" {
		return nil, unavailable(where, "context-missing", nil, "there is no home directory to look for contexts in", undo)
	}
	contexts := store.New(filepath.Join(dir, "contexts"), store.NewConfig(
		func() any { return &map[string]any{} },
		store.EndpointTypeGetter(cliendpoint.DockerEndpoint, func() any { return &cliendpoint.EndpointMeta{} }),
	))
	meta, err := contexts.GetMetadata(name)
	if errdefs.IsNotFound(err) || errors.Is(err, os.ErrNotExist) {
		return nil, unavailable(where, "context-missing", err, "the docker CLI knows no context of that name", "docker context ls")
	}
	broken := func(err error) error {
		return unavailable(where, "context-broken", err, "the docker CLI's context cannot be used", "docker context inspect "+name)
	}
	if err != nil {
		return nil, broken(err)
	}
	endpoint, err := cliendpoint.EndpointFromContext(meta)
	if err != nil {
		return nil, broken(err)
	}
	full, err := cliendpoint.WithTLSData(contexts, name, endpoint)
	if err != nil {
		return nil, broken(err)
	}
	if full.Host == "" {
		return nil, broken(errors.New("it names no host"))
	}
	settings, err := tlsFromContext(full)
	if err != nil {
		return nil, broken(err)
	}
	return []target{{endpoint: full.Host, source: source + " " + name, undo: undo, tls: settings}}, nil
}

func tlsFromContext(e cliendpoint.Endpoint) (*tls.Config, error) {
	if e.TLSData == nil && !e.SkipTLSVerify {
		return nil, nil
	}
	settings := tlsconfig.ClientDefault()
	settings.InsecureSkipVerify = e.SkipTLSVerify //nolint:gosec // what the user told the docker CLI about this context
	if e.TLSData == nil {
		return settings, nil
	}
	if e.TLSData.CA != nil {
		settings.RootCAs = x509.NewCertPool()
		if !settings.RootCAs.AppendCertsFromPEM(e.TLSData.CA) {
			return nil, errors.New("its ca.pem holds no certificate")
		}
	}
	if e.TLSData.Cert != nil && e.TLSData.Key != nil {
		pair, err := tls.X509KeyPair(e.TLSData.Cert, e.TLSData.Key)
		if err != nil {
			return nil, fmt.Errorf("read its client certificate: %w", err)
		}
		settings.Certificates = []tls.Certificate{pair}
	}
	return settings, nil
}

// tlsFromEnvironment follows the docker CLI: DOCKER_TLS_VERIFY or DOCKER_TLS switch
// TLS on, the files lie in DOCKER_CERT_PATH or beside the CLI's configuration.
func tlsFromEnvironment(env environment) (*tls.Config, error) {
	verify := env.get("DOCKER_TLS_VERIFY") != ""
	if !verify && env.get("DOCKER_TLS") == "" {
		return nil, nil
	}
	return tlsconfig.Client(tlsconfig.Options{
		CAFile:             existing(certPath(env), "ca.pem"),
		CertFile:           existing(certPath(env), "cert.pem"),
		KeyFile:            existing(certPath(env), "key.pem"),
		InsecureSkipVerify: !verify,
		ExclusiveRootPools: true,
	})
}

// existing is empty for a file that is not there: each of them is optional.
func existing(dir, name string) string {
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return ""
	}
	return path
}

func certPath(env environment) string {
	if dir := env.get("DOCKER_CERT_PATH"); dir != "" {
		return dir
	}
	return configDir(env)
}

func configDir(env environment) string {
	if dir := env.get("DOCKER_CONFIG"); dir != "" {
		return dir
	}
	if home := homeDir(env); home != "" {
		return filepath.Join(home, ".docker")
	}
	return ""
}

func usualPlaces(env environment) ([]target, error) {
	places, err := sockets(env)
	if err != nil {
		return nil, unavailable("its usual places", "engine-absent", err, "this system has none that brig knows", "export DOCKER_HOST=tcp://HOST:PORT")
	}
	targets := make([]target, 0, len(places))
	for _, place := range places {
		targets = append(targets, target{endpoint: place, source: "found at its usual place"})
	}
	return targets, nil
}

// unavailable makes the one kind of error that says why there is no engine. The
// text of cause is added where there is one.
func unavailable(endpoint, code string, cause error, what, remedy string) *sandbox.Unavailable {
	reason := "docker engine not reachable at " + oneLine(endpoint, 200) + ": " + what
	if cause != nil {
		reason += " (" + oneLine(cause.Error(), 400) + ")" // ssh shows what the other side said
	}
	return &sandbox.Unavailable{Backend: sandbox.Docker, Code: code, Reason: reason, Remedy: remedy, Err: cause}
}
