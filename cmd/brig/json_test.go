package main

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
)

// What is printed for programs reaches terminals as well.
func TestJSONReachesNoTerminal(t *testing.T) {
	want := "a\x1b[31m\u009b31m\u0085\x7f\u202e\u2028\u200b\ufeff\U000e0041 \u00fcml\u00e4ut \U0001f600 \u200d \\u009b"
	text, err := json.Marshal(map[string]string{"k": want})
	if err != nil {
		t.Fatal(err)
	}
	tame := string(tameJSON(text))
	for _, r := range tame {
		if unicode.Is(unicode.Cc, r) || hidden(r) {
			t.Errorf("%U is left", r)
		}
	}
	if !strings.Contains(tame, "\u00fcml\u00e4ut \U0001f600 \u200d") {
		t.Errorf("letters were touched: %s", tame)
	}
	var back map[string]string
	if err := json.Unmarshal([]byte(tame), &back); err != nil || back["k"] != want {
		t.Errorf("%q came back as %q, %v", want, back["k"], err)
	}
}
