package workspace

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// MaxName is the longest name, in bytes, and MaxPart the longest part of one.
	MaxName = 4096
	MaxPart = 255
	// MaxDepth is how many parts a name may have, and how deep a list goes: what is
	// below is not listed, and the directory there says so.
	MaxDepth = 64
)

// Clean checks a name and brings it into the one form that this package uses:
// slash separated parts, none of them empty, "." or "..". It refuses what leads
// out (ErrEscapes) and what can name no file (ErrName). Bytes that are no UTF-8
// pass: code may have made such a file and a person must be able to get rid of it.
func Clean(name string) (string, error) {
	return clean("use", name)
}

func clean(op, name string) (string, error) {
	bad := func(why string) (string, error) {
		return "", &Error{Op: op, Name: shown(name), Kind: ErrName, Why: why}
	}
	switch {
	case name == "":
		return "", &Error{Op: op, Name: ".", Kind: ErrName, Why: "the name is empty"}
	case len(name) > MaxName:
		return bad("the name is longer than 4096 bytes")
	case strings.IndexByte(name, 0) >= 0:
		return bad("the name contains a NUL byte")
	case rooted(name):
		return "", &Error{Op: op, Name: shown(name), Kind: ErrEscapes, Why: "the name is absolute; give one relative to the workspace"}
	}
	parts := make([]string, 0, 8)
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "" || part == ".":
			continue
		case part == "..":
			return "", &Error{Op: op, Name: shown(name), Kind: ErrEscapes, Why: `the name contains ".."`}
		case len(part) > MaxPart:
			return bad("a part of the name is longer than 255 bytes")
		}
		if why := foreign(part); why != "" {
			return bad(why)
		}
		parts = append(parts, part)
	}
	switch {
	case len(parts) == 0:
		return bad("the name means the workspace itself")
	case len(parts) > MaxDepth:
		return bad("the name has more than 64 parts")
	}
	return strings.Join(parts, "/"), nil
}

// cleanNew is Clean for a name that brig is about to create: brig makes only
// names that every system can hold and every terminal can show.
func cleanNew(op, name string) (string, error) {
	clean, err := clean(op, name)
	if err != nil {
		return "", err
	}
	why := ""
	switch {
	case !utf8.ValidString(clean):
		why = "the name is not valid UTF-8"
	case strings.IndexFunc(clean, unicode.IsControl) >= 0:
		why = "the name contains a control character"
	default:
		for part := range strings.SplitSeq(clean, "/") {
			if device(part) {
				why = "the name is that of a device on Windows"
			}
		}
	}
	if why != "" {
		return "", &Error{Op: op, Name: shown(name), Kind: ErrName, Why: why}
	}
	return clean, nil
}

// device reports whether Windows takes part, with any extension, for a device.
func device(part string) bool {
	stem, _, _ := strings.Cut(part, ".")
	stem = strings.ToUpper(strings.TrimRight(stem, " "))
	switch stem {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return true
	}
	for _, port := range []string{"COM", "LPT"} {
		if n, ok := strings.CutPrefix(stem, port); ok {
			return strings.Contains("123456789¹²³", n) && utf8.RuneCountInString(n) == 1
		}
	}
	return false
}

// shown shortens a name that goes into a message.
func shown(name string) string {
	if len(name) <= 120 {
		return name
	}
	return name[:100] + "…"
}
