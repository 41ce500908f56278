package main

import (
	"encoding/base64"
	"encoding/json"
	"time"
	"unicode/utf8"
)

// printJSON writes exactly one object on standard output.
func (p *program) printJSON(v any) error {
	enc := json.NewEncoder(p.tui.stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
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
