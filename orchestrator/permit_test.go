package orchestrator

import (
	"context"
	"errors"
	"strings"
	"testing"

	"brig/orchestrator/config"
	"brig/orchestrator/sandbox"
	. "brig/orchestrator/sandbox/sandboxtest"
	"brig/orchestrator/wire"
)

// A session that is open already runs nothing that the settings in force would not
// let a new one run, keeps its variables meanwhile, and goes on when they do again.
func TestSettingsInForceDecideAboutEveryRun(t *testing.T) {
	verdicts := map[sandbox.LayerID]Verdict{}
	for _, id := range CorePromise() {
		verdicts[id] = Blocked
	}
	for name, c := range map[string]struct {
		before, after func(*config.Config)
		gone          bool // docker
		want          sandbox.Kind
		code, words   string // of the refusal; empty: it runs
	}{
		"the same":              {},
		"code off":              {after: func(c *config.Config) { c.Workspace.CodeExec = false }, code: CodeSwitchedOff, words: "workspace.code_exec"},
		"code off, on host":     {want: sandbox.Host, after: func(c *config.Config) { c.Workspace.CodeExec = false }, code: CodeSwitchedOff, words: "workspace.code_exec"},
		"stepped down":          {gone: true},
		"no step-down any more": {gone: true, after: func(c *config.Config) { c.Execution.Fallback = "none" }, code: CodeSettings, words: "execution.fallback is none now"},
		"asked for by name":     {gone: true, want: sandbox.Host, after: func(c *config.Config) { c.Execution.Fallback = "none" }},
		"another backend":       {after: func(c *config.Config) { c.Execution.Backend = sandbox.Host }, code: CodeSettings, words: "execution.backend is host now"},
		"unverified":            {want: sandbox.Host, after: func(c *config.Config) { c.Host.Sandbox = sandbox.ModeRequire }, code: CodeUnverified, words: "self-test"},
		"a sandbox again": {
			want: sandbox.Host, before: func(c *config.Config) { c.Host.Sandbox = sandbox.ModeOff },
			after: func(c *config.Config) { c.Host.Sandbox = sandbox.ModeBestEffort }, code: CodeSettings, words: "host.sandbox is best-effort now",
		},
		"no network any more": {
			want: sandbox.Host, before: func(c *config.Config) { c.Host.Network = sandbox.NetworkAllow },
			after: func(c *config.Config) { c.Host.Network = sandbox.NetworkDeny }, code: CodeSettings, words: "network is deny now",
		},
		"numbers alone": {after: func(c *config.Config) { c.Limits.Memory = 128 << 20 }},
	} {
		t.Run(name, func(t *testing.T) {
			conf := config.Default()
			conf.Execution.Fallback = sandbox.Host
			if c.before != nil {
				c.before(&conf)
			}
			r := newRig(t, func(o *Options) {
				o.Config = conf
				o.Verdicts = func() map[sandbox.LayerID]Verdict { return nil }
			})
			if c.gone {
				r.docker.SetUnavailable(engineGone())
			}
			s := r.open(t, SessionOptions{Name: "x", Backend: c.want})
			run(t, s, RunRequest{}, Set("kept", 7))
			r.docker.SetUnavailable(nil)
			after := conf
			if c.after != nil {
				c.after(&after)
			}
			if err := r.Reconfigure(after); err != nil {
				t.Fatal(err)
			}
			_, err := s.Run(context.Background(), RunRequest{Source: Program{Print("no")}.Source()}, nil)
			var no *RefusedError
			switch {
			case c.code == "" && err != nil:
				t.Errorf("it does not run: %v", err)
			case c.code != "" && (!errors.As(err, &no) || no.Code != c.code || !strings.Contains(no.Reason, c.words) || no.Remedy == ""):
				t.Errorf("%+v", err)
			case c.code != "" && (len(s.Differs()) == 0 || !strings.Contains(s.Differs()[0], "nothing runs in it now: "+no.Reason)):
				t.Errorf("%q", s.Differs())
			}
			if err := r.Reconfigure(conf); err != nil {
				t.Fatal(err)
			}
			if got, _ := run(t, s, RunRequest{}, Show("kept")); got.Cause != sandbox.OK || got.State != wire.StateKept {
				t.Errorf("with the settings as they were: %+v", got)
			}
		})
	}
}
