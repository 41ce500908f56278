package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// printJSON writes exactly one object on standard output. What could do more to a
// terminal than print is escaped, as JSON can have it.
func (p *program) printJSON(v any) error {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := p.tui.stdout.Write(tameJSON(out.Bytes()))
	return err
}

// tameJSON escapes what control and formatting characters are left in JSON, all of
// which stand in its strings.
func tameJSON(text []byte) []byte {
	var out []byte
	from := 0
	for at, r := range string(text) {
		if r < 0x7f || !unicode.Is(unicode.Cc, r) && !hidden(r) {
			continue
		}
		out = append(out, text[from:at]...)
		from = at + utf8.RuneLen(r)
		if r > 0xffff {
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		} else {
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return append(out, text[from:]...)
}

// text is bytes in JSON: as they are where they are UTF-8, in base64 where not,
// and the encoding says which.
type text struct {
	Encoding string `json:"encoding"`
	Data     string `json:"data"`
}

func newText(b []byte) text {
	if utf8.Valid(b) {
		return text{"utf-8", string(b)}
	}
	return text{"base64", base64.StdEncoding.EncodeToString(b)}
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
