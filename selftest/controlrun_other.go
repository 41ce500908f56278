//go:build !linux

package selftest

import "os/exec"

func endsWithBrig(*exec.Cmd) func() { return func() {} }
