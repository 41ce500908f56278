package config

import (
	"fmt"

	"brig/orchestrator/sandbox"
)

// cross checks the rules between keys. at tells where a key's value comes from;
// nil means that nobody knows.
func cross(c Config, at func(key string) string) []Problem {
	if at == nil {
		at = func(string) string { return "" }
	}
	var out []Problem
	rule := func(broken bool, key, text, suggestion string) {
		if broken {
			out = append(out, Problem{Key: key, Source: at(key), Text: text, Suggestion: suggestion})
		}
	}
	rule(c.Docker.Endpoint != "" && c.Docker.Context != "", "docker.context",
		"docker.endpoint is set too, and each names an engine", "remove one of the two")
	rule(c.Execution.Backend == sandbox.WASM && !c.Sandbox.Enabled, "execution.backend",
		"it is wasm, but sandbox.enabled is false", "set sandbox.enabled = true or choose another backend")
	rule(c.Workspace.ExecTimeout > c.Limits.MaxTimeout, "workspace.exec_timeout",
		fmt.Sprintf("%s is longer than limits.max_timeout, which is %s", span(c.Workspace.ExecTimeout), span(c.Limits.MaxTimeout)),
		fmt.Sprintf("set limits.max_timeout = %q or more", span(c.Workspace.ExecTimeout)))
	rule(c.Limits.OutputKept > c.Limits.OutputLogged, "limits.output_kept",
		fmt.Sprintf("%s is more than limits.output_logged, which is %s", size(c.Limits.OutputKept), size(c.Limits.OutputLogged)),
		fmt.Sprintf("set limits.output_logged = %q or more", size(c.Limits.OutputKept)))
	return out
}
