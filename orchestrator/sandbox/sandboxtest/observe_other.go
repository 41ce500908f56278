//go:build !linux

package sandboxtest

func procTree(int) []Process { return nil }

func procAlive(Process) bool { return false }
