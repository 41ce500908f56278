package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"brig/orchestrator/sandbox"
)

// Words and numbers as a person reads them.

// size writes a number of bytes.
func size(n int64) string {
	units := []string{"KiB", "MiB", "GiB", "TiB"}
	if n < 1<<10 {
		if n == 1 {
			return "1 byte"
		}
		return fmt.Sprintf("%d bytes", n)
	}
	f, unit := float64(n), ""
	for _, u := range units {
		if f < 1024 {
			break
		}
		f, unit = f/1024, u
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", f), ".0") + " " + unit
}

// quote makes a word safe to copy into a shell.
func quote(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@%+,", r))
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// dirOf is the nearest directory above name to look into.
func dirOf(name string) string { return filepath.Dir(name) }

// count writes "1 file", "2 files".
func count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// modeWords is a mode of the host sandbox with what it means where it is off.
func modeWords(m sandbox.Mode) string {
	if m == sandbox.ModeOff {
		return string(m) + ": not sandboxed"
	}
	return string(m)
}

// stateWords is the state of a layer with the code by which docs/host.md explains it.
func stateWords(l sandbox.Layer) string {
	if l.State == sandbox.Enforced || l.Code == "" {
		return string(l.State)
	}
	return fmt.Sprintf("%s [%s]", l.State, l.Code)
}

// layerWords is a layer in one line: its state, what holds it, and the gap.
func layerWords(l sandbox.Layer) string {
	parts := []string{stateWords(l)}
	if l.Mechanism != "" {
		parts = append(parts, l.Mechanism)
	}
	if l.Reason != "" && l.State != sandbox.Enforced {
		parts = append(parts, l.Reason)
	}
	return strings.Join(parts, ": ")
}
