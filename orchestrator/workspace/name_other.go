//go:build !windows

package workspace

import "strings"

// rooted reports whether name starts at a root.
func rooted(name string) bool { return strings.HasPrefix(name, "/") }

// foreign has nothing to add here: a part is any bytes but NUL and slash.
func foreign(string) string { return "" }
