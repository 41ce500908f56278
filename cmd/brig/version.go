package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"brig/orchestrator/runner"
	"brig/orchestrator/wire"
)

// versionFacts are what "brig version" prints.
type versionFacts struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Time     string `json:"commit_time,omitempty"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Runner   string `json:"runner"` // SHA-256 of the runner's source
	Protocol int    `json:"protocol"`
}

// readVersion takes everything from what the Go tool put into the binary.
func readVersion() versionFacts {
	v := versionFacts{Version: "(devel)", Go: runtime.Version(), Runner: runner.Hash(), Protocol: wire.Version}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "GOOS":
			v.Platform = s.Value + v.Platform
		case "GOARCH":
			v.Platform += "/" + s.Value
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.time":
			v.Time = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

func (p *program) versionCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "version",
		Short: "Which brig this is",
		Args:  noArgs,
		RunE:  func(*cobra.Command, []string) error { return p.version(asJSON) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func (p *program) version(asJSON bool) error {
	v := readVersion()
	if asJSON {
		return p.printJSON(v)
	}
	fmt.Fprintf(p.tui.stdout, "brig %s\n", v.Version)
	if v.Commit != "" {
		changed := ""
		if v.Modified {
			changed = ", with changes that are not committed"
		}
		fmt.Fprintf(p.tui.stdout, "commit    %s%s\n", v.Commit, changed)
	}
	fmt.Fprintf(p.tui.stdout, "go        %s %s\nrunner    %.16s\nprotocol  %d\n", v.Go, v.Platform, v.Runner, v.Protocol)
	return nil
}
