package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestEscaper(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"plain", "a\tb\r\nc\n", "a\tb\r\nc\n"},
		{"colour", "\x1b[31mred\x1b[0m", `\x1b[31mred\x1b[0m`},
		{"title", "\x1b]0;owned\a", `\x1b]0;owned\x07`},
		{"backspace and delete", "rm\b\b\x7f", `rm\x08\x08\x7f`},
		{"8 bit control, UTF-8", "\u009b2J", `\u009b2J`},
		{"8 bit control, raw", "\x9b2J", `\x9b2J`},
		{"text that reads backwards", "a\u202eb", `a\u202eb`},
		{"hidden tags", "a\U000e0041b", `a\ue0041b`},
		{"line separator", "a\u2028b", `a\u2028b`},
		{"letters and emoji stay", "äß漢👩\u200d💻", "äß漢👩\u200d💻"},
		{"the replacement character itself", "\ufffd", "\ufffd"},
		{"truncated character", "a\xe6\xbc", `a\xe6\xbc`},
	} {
		// Whole, and byte by byte as a pipe may deliver it.
		for _, step := range []int{len(c.in), 1} {
			var out bytes.Buffer
			e := &escaper{w: &out}
			for rest := c.in; rest != ""; {
				n := min(step, len(rest))
				if _, err := e.Write([]byte(rest[:n])); err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
			}
			if err := e.Flush(); err != nil {
				t.Fatal(err)
			}
			if out.String() != c.want {
				t.Errorf("%s, %d at a time: %q, want %q", c.name, step, out.String(), c.want)
			}
		}
	}
}

func TestEscapeLine(t *testing.T) {
	if got := escapeLine("a\nb\x1b[2Jc"); got != `a\x0ab\x1b[2Jc` {
		t.Errorf("escapeLine: %q", got)
	}
}

// FuzzEscaper holds the two promises: nothing reaches the terminal that could do
// more than print, and how the bytes were cut makes no difference.
func FuzzEscaper(f *testing.F) {
	f.Add([]byte("a\x1b[31m\xe6\xbc\xa2\x9b"), 3)
	f.Fuzz(func(t *testing.T, in []byte, at int) {
		run := func(parts ...[]byte) string {
			var out bytes.Buffer
			e := &escaper{w: &out}
			for _, p := range parts {
				if n, err := e.Write(p); n != len(p) || err != nil {
					t.Fatalf("Write: %d, %v", n, err)
				}
			}
			if err := e.Flush(); err != nil {
				t.Fatal(err)
			}
			return out.String()
		}
		whole := run(in)
		if !utf8.ValidString(whole) {
			t.Fatalf("not UTF-8: %q", whole)
		}
		if i := strings.IndexFunc(whole, func(r rune) bool {
			return r < 0x20 && r != '\n' && r != '\t' && r != '\r' || r >= 0x7f && r < 0xa0
		}); i >= 0 {
			t.Fatalf("control character at %d of %q", i, whole)
		}
		if at = max(0, min(at, len(in))); run(in[:at], in[at:]) != whole {
			t.Fatalf("cut at %d: %q, whole: %q", at, run(in[:at], in[at:]), whole)
		}
	})
}
