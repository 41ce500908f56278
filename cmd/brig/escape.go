package main

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// escaper passes text on to a terminal with everything escaped that could do
// more than print: control sequences in their 7 and 8 bit forms, invisible
// formatting characters (which can reorder a line) and bytes that are not UTF-8.
// Newline, tab and carriage return pass: the last lets progress bars work and
// reaches no further than the program's own line, because brig never continues
// a line that a program began.
type escaper struct {
	w    io.Writer
	part []byte // the beginning of a character whose rest has not arrived yet
}

func (e *escaper) Write(p []byte) (int, error) {
	text := p
	if len(e.part) > 0 {
		text = append(e.part, p...)
		e.part = nil
	}
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if r == utf8.RuneError && n == 1 && !utf8.FullRune(text) {
			e.part = append([]byte(nil), text...)
			break
		}
		escapeRune(&b, r, n, text[0])
		text = text[n:]
	}
	if err := e.write(b.String()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush writes what is left of a character that never became whole.
func (e *escaper) Flush() error {
	var b strings.Builder
	for _, c := range e.part {
		escapeRune(&b, utf8.RuneError, 1, c)
	}
	e.part = nil
	return e.write(b.String())
}

func (e *escaper) write(s string) error {
	if s == "" {
		return nil
	}
	_, err := io.WriteString(e.w, s)
	return err
}

// escapeRune writes r, which took n bytes beginning with first, as a terminal may see it.
func escapeRune(b *strings.Builder, r rune, n int, first byte) {
	switch {
	case r == utf8.RuneError && n == 1:
		fmt.Fprintf(b, `\x%02x`, first)
	case r == '\n' || r == '\t' || r == '\r':
		b.WriteRune(r)
	case r < 0x20 || r == 0x7f:
		fmt.Fprintf(b, `\x%02x`, r)
	case unicode.Is(unicode.Cc, r), r == 0x2028, r == 0x2029, hidden(r):
		fmt.Fprintf(b, `\u%04x`, r)
	default:
		b.WriteRune(r)
	}
}

// hidden tells formatting characters that can make a line read differently from
// what it says. Joiners stay: scripts and emoji need them.
func hidden(r rune) bool {
	return unicode.Is(unicode.Bidi_Control, r) || unicode.Is(unicode.Cf, r) && r != 0x200c && r != 0x200d && r != 0xad
}

// escapeLine makes text fit for one line of brig's own messages: what a file, an
// engine or a program said, with line breaks shown as well.
func escapeLine(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == '\n' || r == '\r' {
			fmt.Fprintf(&b, `\x%02x`, r)
		} else {
			escapeRune(&b, r, n, s[0])
		}
		s = s[n:]
	}
	return b.String()
}
