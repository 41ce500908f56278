package orchestrator

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"brig/orchestrator/config"
	"brig/orchestrator/private"
)

// AcknowledgedFile is the path of the record that a person accepted, on this
// machine, that code runs although neither files nor system calls are restricted:
// the machine's name in its first line, the time (RFC 3339) in its second.
// Removing it takes the acceptance back.
func AcknowledgedFile(p config.Paths) string { return filepath.Join(p.State, "uncontained-accepted") }

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
	text := machine + "\n" + time.Now().UTC().Format(time.RFC3339) + "\n"
	if err := private.Replace(AcknowledgedFile(p), []byte(text), private.FileMode); err != nil {
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
	text, err := os.ReadFile(AcknowledgedFile(p))
	if err != nil {
		return false
	}
	first, _, _ := strings.Cut(string(text), "\n")
	return first == machine && machine != ""
}
