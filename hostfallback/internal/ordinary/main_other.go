//go:build !linux

package ordinary

import "testing"

// Main runs the tests of m and returns the exit status.
func Main(m *testing.M) int { return m.Run() }
