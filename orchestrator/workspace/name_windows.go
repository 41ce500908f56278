package workspace

import (
	"path/filepath"
	"strings"
)

// rooted reports whether name starts at a root, a drive or a device.
func rooted(name string) bool {
	return strings.HasPrefix(name, "/") || strings.HasPrefix(name, `\`) || filepath.VolumeName(name) != ""
}

// foreign says why this system would take part for something else than one plain name.
func foreign(part string) string {
	switch {
	case strings.ContainsAny(part, `\:*?"<>|`):
		return `the name contains one of \ : * ? " < > |`
	case strings.HasSuffix(part, ".") || strings.HasSuffix(part, " "):
		return "a part of the name ends with a dot or a space"
	case device(part):
		return "the name is that of a device"
	}
	return ""
}
