package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open opens a log that has nothing to report, and closes it with the test.
func open(t testing.TB, o Options) *Log {
	t.Helper()
	l, problems := reopen(t, o)
	if len(problems) > 0 {
		t.Fatalf("reported %q", problems)
	}
	return l
}

func reopen(t testing.TB, o Options) (*Log, []string) {
	t.Helper()
	l, report, err := Open(t.Context(), o)
	must(t, err)
	t.Cleanup(func() { shut(t, l) })
	return l, report.Problems
}

func shut(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func logDir(t testing.TB) string { return filepath.Join(t.TempDir(), "audit") }

func entry(n int) Entry {
	return Entry{KindRun, "agent", RunData{Event: "ended", Run: fmt.Sprint("r", n), Session: fmt.Sprint("s", n%2), Name: fmt.Sprint("name", n%2), Code: CodeOf([]byte("print(6*7)"), false), Cause: "ok"}}
}

func fill(t testing.TB, l *Log, n int) {
	t.Helper()
	for i := range n {
		_, err := l.Note(t.Context(), entry(i))
		must(t, err)
	}
}

func verdict(t testing.TB, dir string, anchors ...Anchor) Verdict {
	t.Helper()
	v, err := Verify(t.Context(), dir, anchors...)
	must(t, err)
	return v
}

func holds(t testing.TB, dir string, lines uint64) Verdict {
	t.Helper()
	v := verdict(t, dir)
	if !v.Holds() || v.Lines != lines {
		t.Errorf("%d lines, want %d: %s", v.Lines, lines, v.Sentence())
	}
	return v
}

func TestLinesComeBack(t *testing.T) {
	dir := logDir(t)
	l := open(t, Options{Dir: dir})
	head, err := l.Append(t.Context(), Entry{KindConsent, "operator (uid 1000)", EventData{Event: "accepted", Detail: "no confinement"}})
	must(t, err)
	fill(t, l, 10)
	lines, next, err := l.Query(t.Context(), Query{})
	must(t, err)
	if len(lines) != 11 || next != "" || lines[10].Hash != head.Hash || lines[10].Kind != KindConsent || lines[0].Number != 11 {
		t.Fatalf("%d lines, next %q: %+v", len(lines), next, lines)
	}
	if time.Since(lines[0].Time) > time.Minute || string(lines[10].Data) != `{"event":"accepted","detail":"no confinement"}` {
		t.Errorf("%+v", lines[10])
	}
	shut(t, l)
	holds(t, dir, 11)
	l = open(t, Options{Dir: dir})
	fill(t, l, 1)
	holds(t, dir, 12)
	shut(t, l)
	shut(t, l)
	if _, err := l.Note(t.Context(), entry(0)); !errors.Is(err, ErrClosed) {
		t.Errorf("%v", err)
	}
}

// Nothing that an agent says can make a line of its own or reach a terminal.
func TestTextForgesNothing(t *testing.T) {
	dir := logDir(t)
	l := open(t, Options{Dir: dir})
	texts := []string{
		"a\n" + `{"number":2,"time":"2026-01-01T00:00:00.000000Z","kind":"consent","actor":"operator","data":{},"prev":"","hash":""}` + "\n",
		"\x1b]0;title\x07\x1b[2J\x1b[31m", "\u009b31m\u0085", "\u202egpj.exe\u2028\u2029\u200b\ufeff", "\x00\x7f\r\b", "\xff\xfe\xc3(", "ümlaut 😀 \U0010ffff", `","hash":"` + strings.Repeat("0", 64) + `"}`,
	}
	for _, text := range texts {
		_, err := l.Note(t.Context(), Entry{KindAuth, text, EventData{Event: text, Session: text, Detail: text, Values: map[string]any{text: text}}})
		must(t, err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, segmentName(1)))
	must(t, err)
	if n := bytes.Count(raw, []byte("\n")); n != len(texts) {
		t.Errorf("%d lines of %d entries", n, len(texts))
	}
	for _, c := range raw {
		if (c < 0x20 || c >= 0x7f) && c != '\n' {
			t.Fatalf("byte %#x in the log", c)
		}
	}
	holds(t, dir, uint64(len(texts)))
	lines, _, err := l.Query(t.Context(), Query{})
	must(t, err)
	for i, x := range lines {
		want := strings.ToValidUTF8(texts[len(texts)-1-i], "\ufffd")
		var d EventData
		must(t, json.Unmarshal(x.Data, &d))
		if x.Actor != strings.Join(strings.Split(want, ""), "") && !strings.Contains(want, "\ufffd") || d.Detail != x.Actor {
			t.Errorf("%q came back as %q and %q", want, x.Actor, d.Detail)
		}
	}
}

func TestLargeDataIsNamedNotKept(t *testing.T) {
	dir := logDir(t)
	l := open(t, Options{Dir: dir})
	_, err := l.Note(t.Context(), Entry{KindRun, strings.Repeat("ü", 4096), RunData{Event: "accepted", Run: "r1", Code: CodeOf(bytes.Repeat([]byte("x\n"), maxData), true)}})
	must(t, err)
	lines, _, err := l.Query(t.Context(), Query{Run: "r1"})
	must(t, err)
	if len(lines) != 1 || !bytes.Contains(lines[0].Data, []byte(`"omitted":{"bytes":`)) || len(lines[0].Data) > 1000 || len(lines[0].Actor) > maxActor {
		t.Errorf("%+v", lines)
	}
	holds(t, dir, 1)
	if _, err := l.Note(t.Context(), Entry{KindRun, "", "text"}); err == nil {
		t.Error("data that is no object was taken")
	}
	if _, err := l.Note(t.Context(), Entry{`x","y":"`, "", EventData{}}); err == nil {
		t.Error("a kind that is no word was taken")
	}
	holds(t, dir, 1)
}

func TestRotationKeepsTheChain(t *testing.T) {
	dir := logDir(t)
	o := Options{Dir: dir, SegmentBytes: 2000}
	l := open(t, o)
	fill(t, l, 50)
	v := verdict(t, dir)
	if !v.Holds() || v.Segments < 8 || v.From != 1 || v.Lines != v.Head.Number || v.Lines != 50+uint64(v.Segments)-1 {
		t.Fatalf("%+v", v)
	}
	shut(t, l)
	l = open(t, o)
	fill(t, l, 1)
	shut(t, l)

	// Fewer are kept: the chain says what went.
	o.Segments = 3
	l = open(t, o)
	fill(t, l, 20)
	v = verdict(t, dir)
	if !v.Holds() || v.Segments != 3 || v.From == 1 {
		t.Fatalf("%+v", v)
	}
	var seen []string
	for q := (Query{Kind: KindRun, Limit: 3}); ; {
		lines, next, err := l.Query(t.Context(), q)
		must(t, err)
		for _, x := range lines {
			seen = append(seen, fmt.Sprint(x.Number))
		}
		if q.Cursor = next; next == "" {
			break
		}
	}
	if len(seen) < 5 {
		t.Errorf("%v", seen)
	}
	must(t, os.Remove(filepath.Join(dir, segmentName(mustSegments(t, dir)[0]))))
	if v := verdict(t, dir); v.Holds() {
		t.Errorf("a segment was removed and no line says so: %+v", v)
	}
}

func mustSegments(t testing.TB, dir string) []int {
	t.Helper()
	all, err := segments(dir)
	must(t, err)
	return all
}

func TestQuery(t *testing.T) {
	dir := logDir(t)
	l := open(t, Options{Dir: dir, SegmentBytes: 3000})
	fill(t, l, 20)
	_, err := l.Note(t.Context(), Entry{KindSession, "agent", SessionData{Event: "opened", Session: "s1", Name: "name1"}})
	must(t, err)
	for name, c := range map[string]struct {
		q    Query
		want int
	}{
		"a kind": {Query{Kind: KindSession}, 1}, "a session": {Query{Session: "s1"}, 11}, "by name": {Query{Session: "name0"}, 10},
		"a run": {Query{Run: "r7"}, 1}, "an event": {Query{Event: "ended"}, 20}, "later": {Query{Since: time.Now().Add(time.Hour)}, 0},
		"earlier": {Query{Until: time.Now().Add(-time.Hour)}, 0}, "all": {Query{Kind: KindRun, Since: time.Now().Add(-time.Hour), Until: time.Now().Add(time.Hour)}, 20},
	} {
		t.Run(name, func(t *testing.T) {
			for _, limit := range []int{0, 1, 7} {
				q, n, last := c.q, 0, ^uint64(0)
				q.Limit = limit
				for {
					lines, next, err := l.Query(t.Context(), q)
					must(t, err)
					for _, x := range lines {
						if n++; x.Number >= last {
							t.Errorf("%d after %d", x.Number, last)
						}
						last = x.Number
					}
					if q.Cursor = next; next == "" {
						break
					}
				}
				if n != c.want {
					t.Errorf("%d lines by pages of %d, want %d", n, limit, c.want)
				}
			}
		})
	}
	_, _, err = l.Query(t.Context(), Query{Cursor: "x"})
	if !errors.Is(err, ErrCursor) {
		t.Errorf("%v", err)
	}
	if lines, next, err := Find(t.Context(), filepath.Join(dir, "none"), Query{}); len(lines) != 0 || next != "" || err != nil {
		t.Errorf("%v %v %v", lines, next, err)
	}
}

// Several openers, as several processes are, append to one chain.
func TestManyWriters(t *testing.T) {
	dir := logDir(t)
	var wg sync.WaitGroup
	const writers, each = 6, 60
	for n := range writers {
		l := open(t, Options{Dir: dir, SegmentBytes: 5000})
		wg.Go(func() {
			for i := range each {
				write := l.Note
				if i%10 == n {
					write = l.Append
				}
				if _, err := write(context.WithoutCancel(t.Context()), entry(i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	v := verdict(t, dir)
	if !v.Holds() || v.Lines != writers*each+uint64(v.Segments)-1 {
		t.Errorf("%+v", v)
	}
}

func BenchmarkNote(b *testing.B) {
	l := open(b, Options{Dir: logDir(b)})
	for b.Loop() {
		_, err := l.Note(b.Context(), entry(1))
		must(b, err)
	}
}

func BenchmarkAppend(b *testing.B) {
	l := open(b, Options{Dir: logDir(b)})
	for b.Loop() {
		_, err := l.Append(b.Context(), entry(1))
		must(b, err)
	}
}
