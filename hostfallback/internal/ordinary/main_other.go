//go:build !linux

package ordinary

import "testing"

// Main runs the tests of m and returns the exit status.
func Main(m *testing.M) int { return m.Run() }

// MainAndRoot does the same: nothing here is about being root.
func MainAndRoot(m *testing.M) int { return m.Run() }
