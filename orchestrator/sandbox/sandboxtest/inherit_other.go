//go:build !unix

package sandboxtest

import "testing"

// openInheritable is not needed where handles are inherited only by name.
func openInheritable(*testing.T, string) {}
