package confine

import (
	"slices"
	"strings"
	"testing"
)

func TestProbedJudge(t *testing.T) {
	t.Parallel()
	const may, mayNot = "YES", "NO!"
	for name, c := range map[string]struct {
		p       probed
		applied bool
		code    string
	}{
		"refused":    {probed{out: may, status: 1, errors: "cat: /x: Operation not permitted"}, true, ""},
		"open":       {probed{out: may + mayNot}, false, CodeSeatbeltOpen},
		"open late":  {probed{out: may + mayNot, late: true}, false, CodeSeatbeltOpen},
		"missing":    {probed{missing: true}, false, CodeSeatbeltMissing},
		"nested":     {probed{status: 71, errors: "sandbox-exec: sandbox_apply: Operation not permitted"}, false, CodeSeatbeltNested},
		"malformed":  {probed{status: 65, errors: "sandbox-exec: <input string>:3:0: unbound variable: file-lnk"}, false, CodeSeatbeltProfile},
		"no cat":     {probed{status: 71, errors: "sandbox-exec: execvp() of '/bin/cat' failed: Operation not permitted"}, false, CodeSeatbeltProfile},
		"killed":     {probed{status: -1}, false, CodeSeatbeltProfile},
		"both fail":  {probed{status: 1, errors: "cat: /a: Operation not permitted\ncat: /b: Operation not permitted"}, false, CodeSeatbeltProfile},
		"hangs":      {probed{late: true, out: may, status: -1}, false, CodeSeatbeltProfile},
		"no refusal": {probed{out: may}, false, CodeSeatbeltProfile},
	} {
		if got := c.p.judge(may, mayNot); got.Applied != c.applied || got.Code != c.code {
			t.Errorf("%s: %+v, want applied %v, code %q", name, got, c.applied, c.code)
		}
	}
}

func TestEnvironmentOf(t *testing.T) {
	t.Parallel()
	raw := "\x03\x00\x00\x00/usr/bin/python3\x00\x00\x00\x00\x00python3\x00-c\x00A=1 B=2\x00PATH=/bin\x00" + Marker + "=0123\x00\x00ptr_munge=\x00"
	if got, want := environmentOf([]byte(raw)), []string{"PATH=/bin", Marker + "=0123"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	// What is hostile or cut off is nobody's environment, and reads nothing beyond its end.
	for n := range len(raw) {
		if got := environmentOf([]byte(raw[:n])); slices.Contains(got, Marker+"=0123") && n < strings.Index(raw, "\x00\x00ptr")+1 {
			t.Errorf("the first %d bytes have %q", n, got)
		}
	}
	if got := environmentOf([]byte("\xff\xff\xff\x7f/x\x00\x00a\x00")); got != nil {
		t.Errorf("with more arguments than there are: %q", got)
	}
	if got := environmentOf([]byte("\xff\xff\xff\xff/x\x00\x00A=1\x00")); len(got) != 1 {
		t.Errorf("with less than none: %q", got)
	}
}
