package selftest

import (
	"os"
	"os/exec"
)

func ownGroup(*exec.Cmd) {}

// killGroup ends the process alone: what it has started ends with its pipes, or by
// itself in a bounded time.
func killGroup(p *os.Process) { _ = p.Kill() }
