//go:build brig_sabotage

package main

import (
	"os"
	"slices"
	"strings"

	"brig/hostfallback"
	"brig/orchestrator/docker"
)

const sabotageVariable = "BRIG_SABOTAGE"

// environ leaves that variable out, which is no setting.
func environ() []string {
	return slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, sabotageVariable+"=") })
}

// sabotage reads which layers this brig leaves out: names with commas between them.
func (p *program) sabotage(engine *docker.Options, host *hostfallback.Options) error {
	text := p.env(sabotageVariable)
	if text == "" {
		return nil
	}
	names := strings.Split(text, ",")
	known := slices.Concat(docker.Sabotages(), hostfallback.Sabotages())
	for _, n := range names {
		if name, _, _ := strings.Cut(n, "="); !slices.Contains(known, name) {
			return usage("known are: "+strings.Join(known, " "), "unknown sabotage %q", n)
		}
	}
	p.tui.note("sabotaged: this brig leaves out %s", text)
	engine.Sabotage, engine.Environ = names, os.Environ
	host.Sabotage, host.Environ = names, os.Environ
	return nil
}
