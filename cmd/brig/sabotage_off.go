//go:build !brig_sabotage

package main

import (
	"os"

	"brig/hostfallback"
	"brig/orchestrator/docker"
)

// environ is what settings are read from.
func environ() []string { return os.Environ() }

// sabotage does nothing in a brig that ships. Built with the tag brig_sabotage, for
// tests only, brig leaves out the layers that a variable names.
func (p *program) sabotage(*docker.Options, *hostfallback.Options) error { return nil }
