package docker

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	cliendpoint "github.com/docker/cli/cli/context/docker"
	"github.com/docker/cli/cli/context/store"

	"brig/orchestrator/sandbox"
)

// cliHome is a directory as the docker CLI keeps it, with the contexts colima,
// secure and broken.
func cliHome(t *testing.T, current string) string {
	t.Helper()
	home := t.TempDir()
	dir := filepath.Join(home, ".docker")
	contexts := store.New(filepath.Join(dir, "contexts"), store.NewConfig(
		func() any { return &map[string]any{} },
		store.EndpointTypeGetter(cliendpoint.DockerEndpoint, func() any { return &cliendpoint.EndpointMeta{} }),
	))
	for name, host := range map[string]string{"colima": "unix:///somewhere/colima.sock", "secure": "tcp://127.0.0.1:2376", "hostless": ""} {
		err := contexts.CreateOrUpdate(store.Metadata{
			Name: name, Metadata: map[string]any{},
			Endpoints: map[string]any{cliendpoint.DockerEndpoint: cliendpoint.EndpointMeta{Host: host, SkipTLSVerify: name == "secure"}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if current != "" {
		text, err := json.Marshal(map[string]string{"currentContext": current})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "config.json"), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return home
}

func TestDiscoveryOrder(t *testing.T) {
	const other = "unix:///other.sock"
	for _, c := range []struct {
		name             string
		current          string // of the CLI's configuration
		option, context  string
		variables        []string
		endpoint, source string
	}{
		{name: "usual places", endpoint: usual(t), source: "found at its usual place"},
		{name: "current context", current: "colima", endpoint: "unix:///somewhere/colima.sock", source: "the docker CLI's current context colima"},
		{name: "current context is default", current: "default", endpoint: usual(t), source: "found at its usual place"},
		{name: "DOCKER_CONTEXT over current", current: "secure", variables: []string{"DOCKER_CONTEXT", "colima"}, endpoint: "unix:///somewhere/colima.sock", source: "DOCKER_CONTEXT colima"},
		{name: "DOCKER_CONTEXT default over current", current: "secure", variables: []string{"DOCKER_CONTEXT", "default"}, endpoint: usual(t), source: "found at its usual place"},
		{name: "DOCKER_HOST over both", current: "colima", variables: []string{"DOCKER_CONTEXT", "secure", "DOCKER_HOST", other}, endpoint: other, source: "DOCKER_HOST"},
		{name: "own context over the environment", variables: []string{"DOCKER_HOST", other}, context: "colima", endpoint: "unix:///somewhere/colima.sock", source: "docker.context colima"},
		{name: "own endpoint over everything", current: "colima", variables: []string{"DOCKER_HOST", other}, option: "unix:///mine.sock", context: "secure", endpoint: "unix:///mine.sock", source: "docker.endpoint"},
	} {
		t.Run(c.name, func(t *testing.T) {
			home := cliHome(t, c.current)
			targets, err := discover(Options{
				Endpoint: c.option, Context: c.context,
				Env: env(append(c.variables, "HOME", home, "USERPROFILE", home)...),
			})
			if err != nil {
				t.Fatal(err)
			}
			if targets[0].endpoint != c.endpoint || targets[0].source != c.source {
				t.Errorf("found %q because of %q", targets[0].endpoint, targets[0].source)
			}
		})
	}
}

func usual(t *testing.T) string {
	t.Helper()
	places, err := sockets(env())
	if err != nil {
		t.Fatal(err)
	}
	return places[0]
}

func TestDiscoveryHonoursDockerConfig(t *testing.T) {
	home := cliHome(t, "colima")
	targets, err := discover(Options{Env: env("DOCKER_CONFIG", filepath.Join(home, ".docker"))})
	if err != nil || targets[0].endpoint != "unix:///somewhere/colima.sock" {
		t.Errorf("%+v, %v", targets, err)
	}
}

func TestDiscoveryTLSFromContext(t *testing.T) {
	home := cliHome(t, "secure")
	targets, err := discover(Options{Env: env("DOCKER_CONFIG", filepath.Join(home, ".docker"))})
	if err != nil || targets[0].tls == nil || !targets[0].tls.InsecureSkipVerify {
		t.Errorf("%+v, %v", targets, err)
	}
}

func TestDiscoveryFailures(t *testing.T) {
	home := cliHome(t, "")
	dir := filepath.Join(home, ".docker")
	damaged := t.TempDir()
	if err := os.WriteFile(filepath.Join(damaged, "config.json"), []byte("{ not json"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := cliHome(t, "colima")
	metas, err := filepath.Glob(filepath.Join(broken, ".docker/contexts/meta/*/meta.json"))
	if err != nil || len(metas) == 0 {
		t.Fatal("no context files", err)
	}
	for _, name := range metas {
		if err := os.WriteFile(name, []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, code string
		variables  []string
	}{
		{"no such context", "context-missing", []string{"DOCKER_CONFIG", dir, "DOCKER_CONTEXT", "nowhere"}},
		{"context without a host", "context-broken", []string{"DOCKER_CONFIG", dir, "DOCKER_CONTEXT", "hostless"}},
		{"context that is no json", "context-broken", []string{"DOCKER_CONFIG", filepath.Join(broken, ".docker")}},
		{"configuration that is no json", "cli-config-broken", []string{"DOCKER_CONFIG", damaged}},
		{"context without a home", "context-missing", []string{"DOCKER_CONTEXT", "colima"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := discover(Options{Env: env(c.variables...)})
			var u *sandbox.Unavailable
			if !errors.As(err, &u) || u.Code != c.code || u.Remedy == "" || u.Settings {
				t.Errorf("%v", err)
			}
		})
	}
}

// A context that brig's own settings name has to be there: another engine or
// another backend is not what was asked for.
func TestContextOfTheSettings(t *testing.T) {
	dir := filepath.Join(cliHome(t, ""), ".docker")
	for name, want := range map[string]string{"nowhere": "context-missing", "hostless": "context-broken", "colima": ""} {
		_, err := discover(Options{Context: name, Env: env("DOCKER_CONFIG", dir)})
		var u *sandbox.Unavailable
		if want == "" && err != nil || want != "" && (!errors.As(err, &u) || u.Code != want || !u.Settings) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
