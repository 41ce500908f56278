package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"brig/orchestrator"
	"brig/orchestrator/config"
)

// This file is about the one consent that outlives a command: a person accepted
// that on this machine code runs although nothing contains it. It is recorded only
// when a run was refused for want of it, and wherever it matters brig says that it
// exists, since when, and how to take it back.

// unaccepted tells whether nothing but that consent was missing.
func unaccepted(err error) bool {
	var refused *orchestrator.RefusedError
	return errors.As(err, &refused) && refused.Code == orchestrator.CodeUnacknowledged
}

// accept records the consent and says so: at once, or with --json in the answer.
func (p *program) accept(paths config.Paths, silent bool) ([]string, error) {
	if err := orchestrator.Acknowledge(paths); err != nil {
		return nil, err
	}
	c, _ := consentOf(paths)
	said := fmt.Sprintf("recorded: on this machine code may run uncontained from now on; the record is %s", c.File)
	if !silent {
		p.tui.warn(escapeLine(said))
		p.tui.hint(c.revoke())
	}
	return []string{said}, nil
}

// consent is the record as "brig status --json" has it.
type consent struct {
	File   string     `json:"file"`
	Since  *time.Time `json:"since,omitempty"`
	Revoke string     `json:"revoke"` // the command that takes it back
}

func (c consent) revoke() string { return "to take it back: " + c.Revoke }

func (c consent) String() string {
	since := ""
	if c.Since != nil {
		since = " since " + c.Since.Local().Format("2006-01-02 15:04")
	}
	return fmt.Sprintf("accepted%s: where nothing can contain code it runs all the same (%s)", since, c.File)
}

// consentOf finds the record, if it counts on this machine.
func consentOf(paths config.Paths) (consent, bool) {
	file := orchestrator.AcknowledgedFile(paths)
	c := consent{File: file, Revoke: "rm " + quote(file)}
	if !orchestrator.Acknowledged(paths) {
		return c, false
	}
	if text, err := os.ReadFile(file); err == nil {
		_, rest, _ := strings.Cut(string(text), "\n")
		since, _, _ := strings.Cut(rest, "\n")
		if at, err := time.Parse(time.RFC3339, since); err == nil {
			c.Since = &at
		}
	}
	return c, true
}
