package api

import "regexp"

// NameRule is what a session may be called, for people.
const NameRule = "1 to 64 letters, digits, dots, underscores and dashes, and begins with a letter or a digit"

// ValidName tells whether a session may have that name.
func ValidName(name string) bool {
	return len(name) <= 64 && regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`).MatchString(name)
}
