package config_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"brig/orchestrator/config"
	"brig/orchestrator/sandbox"
)

// What a forgotten line leaves in a Config is reported, and is safe where it is used anyway.
func TestZero(t *testing.T) {
	var zero config.Config
	err := zero.Validate()
	var e *config.Error
	if !errors.As(err, &e) || len(e.Problems) < 20 {
		t.Fatalf("the zero value is accepted: %v", err)
	}
	for _, kind := range []sandbox.Kind{"", sandbox.Docker, sandbox.Host, sandbox.WASM} {
		b := zero.BaseFor(kind)
		if b.Mode != sandbox.ModeRequire || b.Network != sandbox.NetworkDeny || b.Limits != sandbox.DefaultLimits() {
			t.Errorf("the zero value as a base for %q: %+v", kind, b)
		}
	}
	if zero.Sandbox.Enabled || zero.Workspace.CodeExec {
		t.Error("a kill switch is off in the zero value")
	}
}

func TestValidate(t *testing.T) {
	for name, change := range map[string]func(*config.Config){
		"execution.backend":      func(c *config.Config) { c.Execution.Backend = sandbox.Memory },
		"execution.fallback":     func(c *config.Config) { c.Execution.Fallback = sandbox.Docker },
		"limits.memory":          func(c *config.Config) { c.Limits.Memory = 1 << 50 },
		"limits.cpus":            func(c *config.Config) { c.Limits.MilliCPU = -1 },
		"workspace.exec_timeout": func(c *config.Config) { c.Workspace.ExecTimeout = time.Hour },
		"limits.output_kept":     func(c *config.Config) { c.Limits.OutputLogged = 8 << 10 },
		"pool.wasm":              func(c *config.Config) { c.Pool.WASM = 17 },
		"server.listen":          func(c *config.Config) { c.Server.Listen = "[::]:80" },
	} {
		c := config.Default()
		change(&c)
		var e *config.Error
		if err := c.Validate(); !errors.As(err, &e) || len(e.Problems) != 1 || e.Problems[0].Key != name {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What was opened for the host sandbox opens nothing in a container.
func TestBase(t *testing.T) {
	c := config.Default()
	c.Host.Network, c.Host.Sandbox = sandbox.NetworkAllow, sandbox.ModeOff
	c.Limits.Memory = 128 << 20
	if b := c.Base(); b.Network != sandbox.NetworkDeny || b.Image != "standard" || b.Runtime != "auto" || b.Limits.Memory != 128<<20 {
		t.Errorf("docker: %+v", b)
	}
	if b := c.BaseFor(sandbox.Host); b.Network != sandbox.NetworkAllow || b.Mode != sandbox.ModeOff {
		t.Errorf("host: %+v", b)
	}
	if b := c.BaseFor(sandbox.WASM); b.Network != sandbox.NetworkDeny || b.Limits.Memory != 512<<20 {
		t.Errorf("wasm: %+v", b)
	}
	if !reflect.TypeFor[config.Config]().Comparable() {
		t.Error("Config is not comparable")
	}
}

func TestKeys(t *testing.T) {
	seen := map[string]string{}
	for _, k := range config.Keys() {
		for _, name := range append([]string{k.Name}, k.Env...) {
			if other, ok := seen[name]; ok {
				t.Errorf("%s belongs to %s and %s", name, other, k.Name)
			}
			seen[name] = k.Name
		}
		if want := "BRIG_" + strings.ToUpper(strings.ReplaceAll(k.Name, ".", "_")); k.Env[len(k.Env)-1] != want {
			t.Errorf("%s has the variables %q, want %s", k.Name, k.Env, want)
		}
		if k.Default == "" && k.Empty == "" {
			t.Errorf("%s has no default and nothing stands for it", k.Name)
		}
		if k.Doc == "" || !strings.HasSuffix(k.Doc, ".") || k.Allowed == "" || k.Type == "" {
			t.Errorf("%s is not described: %+v", k.Name, k)
		}
	}
	// Every field of Config has a key: otherwise nothing could set or check it.
	n := 0
	for _, section := range reflect.VisibleFields(reflect.TypeFor[config.Config]()) {
		n += section.Type.NumField()
	}
	if n != len(config.Keys()) {
		t.Errorf("Config has %d fields and the table %d keys", n, len(config.Keys()))
	}
}
