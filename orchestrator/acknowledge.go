package orchestrator

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"brig/orchestrator/config"
)

// acknowledgedFile records that a person accepted, on this machine, that code
// runs although neither files nor system calls are restricted.
const acknowledgedFile = "uncontained-accepted"

// Acknowledge records that acceptance. It is asked for once per machine, so the
// file names the machine: a state directory that travels does not take it along.
func Acknowledge(p config.Paths) error {
	machine, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("record the acceptance: %w", err)
	}
	if err := os.MkdirAll(p.State, 0o700); err != nil {
		return fmt.Errorf("record the acceptance: %w", err)
	}
	path := filepath.Join(p.State, acknowledgedFile)
	text := machine + "\n" + time.Now().UTC().Format(time.RFC3339) + "\n"
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		return fmt.Errorf("record the acceptance: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("record the acceptance: %w", err)
	}
	return nil
}

// Acknowledged tells whether Acknowledge was called on this machine; Options
// takes it as a closure. What cannot be read counts as no.
func Acknowledged(p config.Paths) bool {
	machine, err := os.Hostname()
	if err != nil {
		return false
	}
	text, err := os.ReadFile(filepath.Join(p.State, acknowledgedFile))
	if err != nil {
		return false
	}
	first, _, _ := strings.Cut(string(text), "\n")
	return first == machine && machine != ""
}
