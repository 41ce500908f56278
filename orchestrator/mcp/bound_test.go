package mcp

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"brig/orchestrator/api"
)

// TestBound shows all of what fits, and otherwise both ends with an exact count.
func TestBound(t *testing.T) {
	long := strings.Repeat("abcdefgh\n", 4000)
	cases := []struct {
		name       string
		o          api.Output
		has        []string
		left       int64
		begin, end string
	}{
		{"short", api.Output{Text: "hello\n", TotalBytes: 6}, []string{"hello\n"}, 0, "hello", "\n"},
		{"long", api.Output{Text: "BEGIN" + long + "END", TotalBytes: int64(len(long)) + 8}, []string{" of 36008 bytes are not shown here; there]"}, int64(len(long)) + 8 - 1000, "BEGIN", "END"},
		{"dropped", api.Output{Text: "BEGIN" + long, Tail: long + "END", TotalBytes: 1 << 20, DroppedBytes: 1<<20 - 2*int64(len(long)) - 8}, nil, 1<<20 - 1000, "BEGIN", "END"},
		{"dropped but short", api.Output{Text: "BEGIN", Tail: "END", TotalBytes: 100, DroppedBytes: 92}, []string{"\n[brig: 92 of 100 bytes are not shown here; there]\n"}, 92, "BEGIN", "END"},
		{"lossy", api.Output{Text: strings.Repeat("\ufffd", 900), TotalBytes: 900, Lossy: true}, []string{"[brig: about "}, 1, "\ufffd", "\ufffd"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := bound(c.o, 1000, "; there")
			if !strings.HasPrefix(s.text, c.begin) || !strings.HasSuffix(s.text, c.end) {
				t.Errorf("it begins %q and ends %q", s.text[:min(20, len(s.text))], s.text[max(0, len(s.text)-20):])
			}
			for _, h := range c.has {
				if !strings.Contains(s.text, h) {
					t.Errorf("%q is not in %q", h, s.text)
				}
			}
			if s.leftOut != c.left || len(s.text) > 1100 {
				t.Errorf("%d bytes are left out of a text of %d, want %d", s.leftOut, len(s.text), c.left)
			}
		})
	}
}

// TestVisible lets nothing through that moves a cursor, reorders or hides text.
func TestVisible(t *testing.T) {
	for in, want := range map[string]string{
		"plain ü 漢\n\ttab":    "plain ü 漢\n\ttab",
		"\x1b[31mred\x07":     `\x1b[31mred\x07`,
		"a\r\nb\rc":           "a\nb\nc",
		"\u202egnp.exe":       `\u202egnp.exe`,
		"\u0085\x7f":          `\x85\x7f`,
		"\U000e0041hidden":    `\U000e0041hidden`,
		"broken \xff end":     "broken \ufffd end",
		"family \u200d joins": "family \u200d joins",
	} {
		if got := clean(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
		if got, used := tail(in, 1000); used != len(in) || !strings.Contains(in, "\r\n") && got != want {
			t.Errorf("from the end %q became %q, want %q", in, got, want)
		}
	}
}

func FuzzBound(f *testing.F) {
	f.Add("text", "tail", int64(10), 100)
	f.Add("\xff\x1b", "", int64(0), 1)
	f.Fuzz(func(t *testing.T, text, rest string, dropped int64, limit int) {
		if limit < 16 || limit > 1<<16 || dropped < 0 || dropped > 1<<40 {
			return
		}
		o := api.Output{Text: text, Tail: rest, DroppedBytes: dropped, TotalBytes: int64(len(text)+len(rest)) + dropped}
		s := bound(o, limit, "")
		if len(s.text) > limit+100 || !utf8.ValidString(s.text) || s.leftOut < 0 || s.leftOut > max(o.TotalBytes, 1) {
			t.Errorf("%d bytes of text, %d left out", len(s.text), s.leftOut)
		}
		if strings.ContainsAny(s.text, "\x1b\x07\r\x00") {
			t.Errorf("a control character came through: %q", s.text)
		}
	})
}

// TestEnds keeps both ends of what comes in pieces.
func TestEnds(t *testing.T) {
	e := ends{limit: 10}
	for range 1000 {
		e.add([]byte("0123456"))
	}
	o := e.output()
	if o.TotalBytes != 7000 || o.Text != "0123456012" || !strings.HasSuffix(o.Tail, "0123456") || len(o.Tail) > 20 || o.KeptBytes+o.DroppedBytes != o.TotalBytes {
		t.Errorf("it holds %+v", o)
	}
}

func TestTextOf(t *testing.T) {
	word := []byte("aü漢b") // 1, 2, 3 and 1 bytes
	for _, c := range []struct {
		piece        []byte
		n            int
		middle, last bool
		want         string
		begin        int
		ok           bool
	}{
		{word, 100, false, true, "aü漢b", 0, true},
		{word, 4, false, false, "aü", 0, true},
		{word[2:], 100, true, true, "漢b", 1, true},
		{word[:5], 100, false, false, "aü", 0, true},
		{word[:5], 100, false, true, "", 0, false}, // the file ends in the middle of a character
		{[]byte("a\x00b"), 100, false, true, "", 0, false},
		{[]byte{0x89, 'P', 'N', 'G'}, 100, false, true, "", 0, false},
		{nil, 100, false, true, "", 0, true},
	} {
		got, begin, ok := textOf(c.piece, c.n, c.middle, c.last)
		if got != c.want || begin != c.begin || ok != c.ok {
			t.Errorf("%q to %d: %q from %d, %v; want %q from %d, %v", c.piece, c.n, got, begin, ok, c.want, c.begin, c.ok)
		}
	}
}

// TestRunArgs takes code in every form in which models write it, and only one at a time.
func TestRunArgs(t *testing.T) {
	for in, want := range map[string]string{
		`{"code":"print(1)"}`:                                 "print(1)",
		`{"code":["a = 1","print(a)"]}`:                       "a = 1\nprint(a)\n",
		`{"lines":["a = 1\n","print(a)"]}`:                    "a = 1\nprint(a)\n",
		`{"code":"x","session":null}`:                         "x",
		`{"code":"x","timeout_seconds":5.0,"wait_seconds":0}`: "x",
	} {
		r, err := decodeRun(in)
		if err != nil || r.Code != want {
			t.Errorf("%s became %q (%v), want %q", in, r.Code, err, want)
		}
	}
	for _, in := range []string{
		`{}`, `{"code":""}`, `{"code":"x","path":"a.py"}`, `{"code":1}`, `{"code":[1]}`, `{"code":"x","timeout_seconds":0}`,
		`{"code":"x","timeout_seconds":1.5}`, `{"code":"x","timeout_seconds":"5"}`, `{"code":"x","tiemout":1}`, `[]`, `{"code":"x"} {}`, `nonsense`,
	} {
		if r, err := decodeRun(in); err == nil {
			t.Errorf("%s became %+v", in, r)
		} else if strings.Contains(err.Error(), "json:") || !strings.Contains(err.Error(), "arguments") {
			t.Errorf("%s: %v", in, err)
		}
	}
}

func decodeRun(in string) (api.RunRequest, error) {
	var a runArgs
	if err := decodeArgs(json.RawMessage(in), &a); err != nil {
		return api.RunRequest{}, err
	}
	return a.request()
}

func TestStampWords(t *testing.T) {
	for _, c := range []struct {
		stamp *api.Stamp
		want  string
	}{
		{nil, "It is not known what contained the code."},
		{&api.Stamp{Backend: "docker", Containment: "contained", Approval: api.ApprovedByProfile}, "Ran in a container: contained. No person was asked: permissions.profile is auto-approve."},
		{&api.Stamp{Backend: "host", Configured: "docker", Containment: "weakened", Degraded: true, Reasons: []string{"the engine is away"}, Weakened: []string{"memory is not bounded"}}, "Ran in the sandbox of the user's operating system: weakened. NOT as configured: docker was configured, but the engine is away. WEAKENED: memory is not bounded."},
		{&api.Stamp{Backend: "host", Containment: "not sandboxed", Uncontained: true}, "NOT SANDBOXED: nothing was between this code and the user's files (the sandbox of the user's operating system)."},
		{&api.Stamp{Backend: "host", Containment: "contained", Degraded: true, Configured: "docker", Reasons: []string{"\x1b[2Jgone"}}, `Ran in the sandbox of the user's operating system: contained. NOT as configured: docker was configured, but \x1b[2Jgone.`},
	} {
		if got := stampWords(c.stamp); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

// TestSchemas are what the strictest clients take: one plain object at the root, one
// type each, no unions, nothing inferred.
func TestSchemas(t *testing.T) {
	for name, text := range map[string]json.RawMessage{
		"runInput": runInput(), "runOutput": runOutput(), "waitInput": waitInput(), "cancelInput": cancelInput(), "listInput": listInput(),
		"listOutput": listOutput(), "readInput": readInput(), "readOutput": readOutput(), "writeInput": writeInput(), "writeOutput": writeOutput(),
		"statusInput": statusInput(), "statusOutput": statusOutput(),
	} {
		var m map[string]any
		if err := json.Unmarshal(text, &m); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if m["type"] != "object" || m["properties"] == nil {
			t.Errorf("%s is no object with properties", name)
		}
		if strings.HasSuffix(name, "Input") && m["additionalProperties"] != false {
			t.Errorf("%s lets other arguments pass", name)
		}
		plainSchema(t, name, m)
	}
}

func plainSchema(t *testing.T, at string, m map[string]any) {
	for _, no := range []string{"anyOf", "oneOf", "allOf", "not", "$ref", "$defs", "if", "const"} {
		if _, has := m[no]; has {
			t.Errorf("%s has %s", at, no)
		}
	}
	if _, one := m["type"].(string); !one {
		t.Errorf("%s has not one type", at)
	}
	if m["type"] == "array" && m["items"] == nil {
		t.Errorf("%s does not say what it holds", at)
	}
	properties, _ := m["properties"].(map[string]any)
	for name, p := range properties {
		plainSchema(t, at+"."+name, p.(map[string]any))
	}
	if items, ok := m["items"].(map[string]any); ok {
		plainSchema(t, at+"[]", items)
	}
}

func TestNameable(t *testing.T) {
	for name, want := range map[string]bool{"a": true, "mcp-x.y_Z9": true, "": false, "-a": false, "a/b": false, "ü": false, strings.Repeat("a", 64): true, strings.Repeat("a", 65): false} {
		if nameable(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}

// TestWaitOfTheSchema: what the schemas let a model ask for is what a call takes.
func TestWaitOfTheSchema(t *testing.T) {
	for _, schema := range []json.RawMessage{runInput(), waitInput()} {
		var s struct {
			Properties map[string]struct{ Maximum *number } `json:"properties"`
		}
		if err := json.Unmarshal(schema, &s); err != nil {
			t.Fatal(err)
		}
		most := s.Properties["wait_seconds"].Maximum
		if _, err := waiting(most, usualWait); most == nil || err != nil {
			t.Errorf("%v is refused: %v", most, err)
		}
	}
}
