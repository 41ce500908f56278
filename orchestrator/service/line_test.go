package service

import "testing"

// No name or message in a comment of an export ends the comment or changes how it looks.
func TestLine(t *testing.T) {
	for text, want := range map[string]string{
		"plain ünï 漢":                           "plain ünï 漢",
		"a\nimport os\r\x1b[2J":                 "a import os  [2J",
		"a\u0085b\u2028c\u2029d":                "a b c d",
		"x\u202egnp.py":                         "x\\u202egnp.py",
		"\u2066a\u2069\u200f\u061c\ufeff\u200b": "\\u2066a\\u2069\\u200f\\u061c\\ufeff\\u200b",
	} {
		if got := line(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
