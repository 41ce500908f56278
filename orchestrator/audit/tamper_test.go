package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"brig/orchestrator/private"
)

// kept is a second anchor, as the session store is one.
type kept struct{ head string }

func (k *kept) options(dir string) Options {
	return Options{
		Dir: dir, SegmentBytes: 4000,
		Recall: func(context.Context) (string, error) { return k.head, nil },
		Keep:   func(_ context.Context, head string) error { k.head = head; return nil },
	}
}

// written is a closed log of some segments, and its anchor.
func written(t testing.TB) (dir string, k *kept, v Verdict) {
	t.Helper()
	dir, k = logDir(t), &kept{}
	l := open(t, k.options(dir))
	fill(t, l, 40)
	shut(t, l)
	v = verdict(t, dir)
	if !v.Holds() || v.Segments < 3 || k.head != v.Head.String() {
		t.Fatalf("%+v, anchored %s", v, k.head)
	}
	for _, index := range mustSegments(t, dir) {
		must(t, os.Chmod(filepath.Join(dir, segmentName(index)), private.FileMode))
	}
	return dir, k, v
}

func edit(t testing.TB, dir string, index int, change func(lines [][]byte) [][]byte) {
	t.Helper()
	name := filepath.Join(dir, segmentName(index))
	text, err := os.ReadFile(name)
	must(t, err)
	lines := change(slices.Collect(bytes.Lines(text)))
	must(t, os.WriteFile(name, bytes.Join(lines, nil), private.FileMode))
}

// forged is a line with a right hash of its own in the place of another one.
func forged(t testing.TB, line []byte) []byte {
	t.Helper()
	x, err := decode(bytes.TrimSuffix(line, []byte("\n")))
	must(t, err)
	out, _, err := seal(body{x.Number, x.Time.Format(timeForm), x.Kind, "somebody else", x.Data, x.Prev})
	must(t, err)
	return out
}

// Whatever is done to what was written shows, also after brig has gone on with it.
func TestTamperingShows(t *testing.T) {
	for name, c := range map[string]struct {
		tamper  func(t *testing.T, dir string)
		says    string
		reports bool // the next start notices without a check of everything
	}{
		"a changed line": {func(t *testing.T, dir string) {
			edit(t, dir, 1, func(l [][]byte) [][]byte { l[3] = bytes.Replace(l[3], []byte(`"ok"`), []byte(`"no"`), 1); return l })
		}, "line 4: it was altered", false},
		"a changed line with a hash that fits": {func(t *testing.T, dir string) {
			edit(t, dir, 1, func(l [][]byte) [][]byte { l[3] = forged(t, l[3]); return l })
		}, "line 5: it does not follow the line before", false},
		"a changed last line with a hash that fits": {func(t *testing.T, dir string) {
			all := mustSegments(t, dir)
			edit(t, dir, all[len(all)-1], func(l [][]byte) [][]byte { l[len(l)-1] = forged(t, l[len(l)-1]); return l })
		}, "is another one than it was", true},
		"a removed line": {func(t *testing.T, dir string) {
			edit(t, dir, 1, func(l [][]byte) [][]byte { return slices.Delete(l, 3, 4) })
		}, "line 4 is missing before it", false},
		"the first line": {func(t *testing.T, dir string) {
			edit(t, dir, 1, func(l [][]byte) [][]byte { return l[1:] })
		}, "line 1 is missing, and nothing says", false},
		"two that changed places": {func(t *testing.T, dir string) {
			edit(t, dir, 1, func(l [][]byte) [][]byte { l[3], l[4] = l[4], l[3]; return l })
		}, "missing before it", false},
		"one twice": {func(t *testing.T, dir string) {
			edit(t, dir, 1, func(l [][]byte) [][]byte { return slices.Insert(l, 3, l[3]) })
		}, "does not follow", false},
		"a line that is none": {func(t *testing.T, dir string) {
			edit(t, dir, 1, func(l [][]byte) [][]byte { return slices.Insert(l, 3, []byte("hello\n")) })
		}, "line 4: it is no line of this log", false},
		"an empty line": {func(t *testing.T, dir string) {
			edit(t, dir, 1, func(l [][]byte) [][]byte { return slices.Insert(l, 3, []byte("\n")) })
		}, "line 4: it is no line of this log", false},
		"a member twice": {func(t *testing.T, dir string) {
			edit(t, dir, 1, func(l [][]byte) [][]byte {
				l[3] = bytes.Replace(l[3], []byte(`"actor":`), []byte(`"actor":"x","actor":`), 1)
				return l
			})
		}, "line 4", false},
		"a first segment that is gone": {func(t *testing.T, dir string) {
			must(t, os.Remove(filepath.Join(dir, segmentName(1))))
		}, "are missing, and nothing says", false},
		"a middle segment that is gone": {func(t *testing.T, dir string) {
			must(t, os.Remove(filepath.Join(dir, segmentName(2))))
		}, "are missing before it", false},
		"an end that was cut off": {func(t *testing.T, dir string) {
			all := mustSegments(t, dir)
			edit(t, dir, all[len(all)-1], func(l [][]byte) [][]byte { return l[:len(l)-2] })
		}, "are missing", true},
		"a last segment that is gone": {func(t *testing.T, dir string) {
			all := mustSegments(t, dir)
			must(t, os.Remove(filepath.Join(dir, segmentName(all[len(all)-1]))))
		}, "missing", true},
		"a last segment that is empty": {func(t *testing.T, dir string) {
			all := mustSegments(t, dir)
			must(t, os.Truncate(filepath.Join(dir, segmentName(all[len(all)-1])), 0))
		}, "missing", true},
		"a last segment full of zeroes": {func(t *testing.T, dir string) {
			all := mustSegments(t, dir)
			name := filepath.Join(dir, segmentName(all[len(all)-1]))
			text, err := os.ReadFile(name)
			must(t, err)
			clear(text[len(text)/2:])
			must(t, os.WriteFile(name, text, private.FileMode))
		}, "", true},
		"noise in the last segment": {func(t *testing.T, dir string) {
			all := mustSegments(t, dir)
			name := filepath.Join(dir, segmentName(all[len(all)-1]))
			text, err := os.ReadFile(name)
			must(t, err)
			for i := len(text) / 3; i < len(text)/2; i++ {
				text[i] = byte(i * 7)
			}
			must(t, os.WriteFile(name, text, private.FileMode))
		}, "", true},
		"everything": {func(t *testing.T, dir string) { must(t, os.RemoveAll(dir)) }, "missing", true},
		"an end that was cut off with its head": {func(t *testing.T, dir string) {
			must(t, os.Remove(filepath.Join(dir, headFile)))
			all := mustSegments(t, dir)
			edit(t, dir, all[len(all)-1], func(l [][]byte) [][]byte { return l[:len(l)-1] })
		}, "as the session store says", true},
	} {
		t.Run(name, func(t *testing.T) {
			dir, k, v := written(t)
			c.tamper(t, dir)
			anchored, err := ParseHead(k.head)
			must(t, err)
			got := verdict(t, dir, Anchor{"the session store", anchored})
			said, err := json.Marshal(got.Breaks)
			must(t, err)
			if got.Holds() || !strings.Contains(string(said), c.says) {
				t.Errorf("%s", said)
			}
			before := contents(t, dir)
			l, problems := reopen(t, k.options(dir))
			if (len(problems) > 0) != c.reports {
				t.Errorf("reported %q", problems)
			}
			head, err := l.Append(t.Context(), entry(0))
			must(t, err)
			if head.Number <= v.Head.Number {
				t.Errorf("line %d was written after line %d", head.Number, v.Head.Number)
			}
			shut(t, l)
			for name, text := range before {
				now, err := os.ReadFile(filepath.Join(dir, name))
				if name != headFile && name != lockFile && (err != nil || !strings.HasPrefix(string(now), text)) {
					if aside := asides(t, dir); len(aside) != 1 || !strings.HasSuffix(text, aside[0]) {
						t.Errorf("%s was changed, and it is not set aside", name)
					}
				}
			}
			anchored, err = ParseHead(k.head)
			must(t, err)
			if again := verdict(t, dir, Anchor{"the session store", anchored}); again.Holds() {
				t.Errorf("it does not show any more: %+v", again)
			}
			// What was written since holds together, and is not reported again.
			l, problems = reopen(t, k.options(dir))
			if len(problems) > 0 {
				t.Errorf("reported again: %q", problems)
			}
			if lines, _, err := l.Query(t.Context(), Query{Limit: 1}); err != nil || len(lines) != 1 || lines[0].Hash != head.Hash {
				t.Errorf("%+v, %v", lines, err)
			}
		})
	}
}

func contents(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return out
	}
	must(t, err)
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		must(t, err)
		out[e.Name()] = string(text)
	}
	return out
}

// asides are the parts of lines that were set aside.
func asides(t testing.TB, dir string) []string {
	t.Helper()
	var out []string
	for name, text := range contents(t, dir) {
		if strings.HasPrefix(name, "torn-") {
			out = append(out, text)
		}
	}
	return out
}

// A part of a line, which a power cut leaves, is set aside, and the chain holds.
func TestTornLineIsSetAside(t *testing.T) {
	dir, k, v := written(t)
	all := mustSegments(t, dir)
	last := filepath.Join(dir, segmentName(all[len(all)-1]))
	f, err := os.OpenFile(last, os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteString(`{"number":99,"time":"20`)
	must(t, err)
	must(t, f.Close())
	if verdict(t, dir).Holds() {
		t.Error("a part of a line does not show")
	}
	l, problems := reopen(t, k.options(dir))
	if len(problems) != 1 || !strings.Contains(problems[0], "ended in a part of a line, 23 bytes: they are in torn-") {
		t.Errorf("reported %q", problems)
	}
	if aside := asides(t, dir); len(aside) != 1 || aside[0] != `{"number":99,"time":"20` {
		t.Errorf("set aside: %q", aside)
	}
	fill(t, l, 3)
	holds(t, dir, v.Lines+4)
}

// What others do to the log while it is open is noticed at the next line.
func TestTamperingMeanwhile(t *testing.T) {
	for name, tamper := range map[string]func(t *testing.T, dir string){
		"cut off": func(t *testing.T, dir string) {
			edit(t, dir, 1, func(l [][]byte) [][]byte { return l[:len(l)-1] })
		},
		"removed": func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(dir, segmentName(1)))) },
		"replaced": func(t *testing.T, dir string) {
			name := filepath.Join(dir, segmentName(1))
			must(t, os.Rename(name, name+".was"))
			must(t, os.WriteFile(name, nil, private.FileMode))
		},
		"everything is removed": func(t *testing.T, dir string) { must(t, os.RemoveAll(dir)) },
		"noise at the end": func(t *testing.T, dir string) {
			edit(t, dir, 1, func(l [][]byte) [][]byte { return append(l, []byte("noise\n")) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := logDir(t)
			l, other := open(t, Options{Dir: dir}), open(t, Options{Dir: dir})
			fill(t, l, 5)
			fill(t, other, 1)
			tamper(t, dir)
			var last Head
			for n := range 6 {
				head, err := []*Log{l, other}[n%2].Append(t.Context(), entry(n))
				must(t, err)
				if head.Number <= max(last.Number, 5) {
					t.Errorf("line %d after line %d", head.Number, last.Number)
				}
				last = head
			}
			v := verdict(t, dir)
			if v.Holds() || v.Head != last {
				t.Errorf("%+v", v)
			}
			if lines, _, err := l.Query(t.Context(), Query{Kind: KindLog}); err != nil || len(lines) == 0 {
				t.Errorf("no line says so: %v", err)
			}
		})
	}
}

// A head that a person has noted shows what nothing on this machine can: a whole
// new chain.
func TestNotedHead(t *testing.T) {
	dir, _, v := written(t)
	noted := v.Head
	must(t, os.RemoveAll(dir))
	l := open(t, Options{Dir: dir, SegmentBytes: 4000})
	fill(t, l, 60)
	shut(t, l)
	if !verdict(t, dir).Holds() {
		t.Error("control: the new chain does not hold by itself")
	}
	got := verdict(t, dir, Anchor{"a note", noted})
	if got.Holds() || !strings.Contains(got.Breaks[0].Reason, fmt.Sprintf("line %d is another one than it was, as a note says", noted.Number)) {
		t.Errorf("%+v", got)
	}
	again, err := ParseHead(noted.String())
	if err != nil || again != noted {
		t.Errorf("%v, %v", again, err)
	}
	for _, text := range []string{"x", "1", "1:", "0:" + noted.Hash, "01:" + noted.Hash, "1:" + genesis[1:], "-1:" + noted.Hash, noted.String() + " "} {
		if h, err := ParseHead(text); err == nil {
			t.Errorf("%q is read as %v", text, h)
		}
	}
}

// A head that was removed shows without any other anchor, with a last line cut or not.
func TestMissingHeadShows(t *testing.T) {
	dir, _, _ := written(t)
	must(t, os.Remove(filepath.Join(dir, headFile)))
	got := verdict(t, dir)
	if got.Holds() || !strings.Contains(got.Breaks[0].Reason, "head beside it is missing") {
		t.Errorf("%+v", got)
	}
}
