package docker

import (
	"strconv"
	"strings"
	"unicode"
)

// printable bounds a peer's words before they become part of a message.
func printable(s string) string {
	if s = oneLine(s, 80); s == "" {
		return "unknown"
	}
	return s
}

// oneLine makes a text of any origin fit for the middle of a sentence.
func oneLine(s string, most int) string {
	s = strings.Join(strings.Fields(s), " ")
	clean := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)
	if len(clean) > most {
		clean = strings.ToValidUTF8(clean[:most], "") + "…"
	}
	return clean
}

// compareVersions compares dotted numbers; what is no number counts as zero.
func compareVersions(a, b string) int {
	for a != "" || b != "" {
		var x, y string
		x, a, _ = strings.Cut(a, ".")
		y, b, _ = strings.Cut(b, ".")
		i, _ := strconv.Atoi(x)
		j, _ := strconv.Atoi(y)
		if i != j {
			return i - j
		}
	}
	return 0
}

// lastLine is the last line that says something, bounded and printable.
func lastLine(text []byte) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	line := strings.TrimSpace(lines[len(lines)-1])
	if line == "" {
		return ""
	}
	return printable(line)
}
