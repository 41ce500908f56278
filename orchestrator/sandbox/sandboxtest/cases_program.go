package sandboxtest

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"brig/orchestrator/wire"
)

func programCases() []testCase {
	return []testCase{
		{name: "Hello", run: caseHello},
		{name: "Result", run: caseResult},
		{name: "NoResult", run: caseNoResult},
		{name: "Displays", run: caseDisplays},
		{name: "StateKept", run: caseStateKept},
		{name: "StderrSeparate", run: caseStderr},
		{name: "Context", run: caseContext},
		{name: "WorkspaceIsCurrentDirectory", run: caseWorkspace},
		{name: "Exception", run: caseException},
		{name: "SyntaxError", run: caseBroken("syntax", "SyntaxError")},
		{name: "NUL", run: caseBroken("nul", "SyntaxError", "ValueError")},
		{name: "NotUTF8", run: caseBroken("utf-8", "SyntaxError", "UnicodeDecodeError")},
		{name: "DeclaredEncoding", run: caseEncoding},
	}
}

func caseHello(t *testing.T, s *suite) {
	o := s.any(t).ok(t, Program{Print("hello")})
	if string(o.stdout) != "hello\n" || len(o.stderr) != 0 {
		t.Errorf("stdout %q, stderr %q", head(o.stdout), head(o.stderr))
	}
	want := wire.Count{Total: 6, Kept: 6}
	if o.exit.Stdout != want || o.exit.Stderr != (wire.Count{}) || o.exit.Log != nil {
		t.Errorf("accounts: %+v, %+v, log %+v", o.exit.Stdout, o.exit.Stderr, o.exit.Log)
	}
	if o.exit.State != wire.StateKept || o.exit.Elapsed <= 0 || o.exit.Hard {
		t.Errorf("exit: %+v", o.exit)
	}
}

func caseResult(t *testing.T, s *suite) {
	o := s.any(t).ok(t, Program{Value(42)})
	if len(o.displays) != 1 || o.displays[0].Role != "result" || o.exit.Displays != 1 {
		t.Fatalf("displays: %+v, counted %d", o.displays, o.exit.Displays)
	}
	if got := part(o.displays[0], "text/plain"); string(got) != "42" {
		t.Errorf("the result is %q", head(got))
	}
}

func caseNoResult(t *testing.T, s *suite) {
	if o := s.any(t).ok(t, Program{Value(42), Set("x", 1)}); len(o.displays) != 0 {
		t.Errorf("a program that ends with a statement has displays: %+v", o.displays)
	}
}

// caseDisplays shows parts that travel inside their message and such that are
// too large for it.
func caseDisplays(t *testing.T, s *suite) {
	const large = 1 << 20
	o := s.any(t).ok(t, Program{Display("text/html", 16), Display("image/svg+xml", large), Value(1)})
	if len(o.displays) != 3 || o.exit.Displays != 3 {
		t.Fatalf("%d displays, counted %d", len(o.displays), o.exit.Displays)
	}
	if d := o.displays[0]; d.Role != "display" || string(part(d, "text/plain")) != "shown" ||
		string(part(d, "text/html")) != "0123456789abcdef" {
		t.Errorf("small display: %+v", d)
	}
	if got := part(o.displays[1], "image/svg+xml"); string(got) != strings.Repeat("0123456789abcdef", large/16) {
		t.Errorf("large display has %d bytes: %q", len(got), head(got))
	}
}

// part is the representation of a display in one type.
func part(d wire.Display, mime string) []byte {
	for _, p := range d.Data {
		if p.MIME == mime {
			return p.Data
		}
	}
	return nil
}

func caseStateKept(t *testing.T, s *suite) {
	b := s.any(t)
	b.ok(t, Program{Set("kept", 41)})
	if o := b.ok(t, Program{Show("kept")}); string(o.stdout) != "41\n" {
		t.Errorf("a variable of the last run is %q", head(o.stdout))
	}
}

func caseStderr(t *testing.T, s *suite) {
	o := s.any(t).ok(t, Program{Print("out"), PrintErr("err"), Print("out")})
	if string(o.stdout) != "out\nout\n" || string(o.stderr) != "err\n" {
		t.Errorf("stdout %q, stderr %q", head(o.stdout), head(o.stderr))
	}
}

// contextReport is what steps/context.py prints.
type contextReport struct {
	Name     string   `json:"name"`
	Argv     []string `json:"argv"`
	CWD      string   `json:"cwd"`
	Encoding string   `json:"encoding"`
	Stdin    string   `json:"stdin"`
	StdinRaw int      `json:"stdin_raw"`
}

func caseContext(t *testing.T, s *suite) {
	argv := []string{"a", "-b", "c d", "é"}
	o := s.any(t).ok(t, Program{ShowContext()}, withArgv(argv...))
	var r contextReport
	if err := json.Unmarshal(o.stdout, &r); err != nil {
		t.Fatalf("read %q: %v", head(o.stdout), err)
	}
	if r.Name != "__main__" || !slices.Equal(r.Argv, argv) || r.Encoding != "utf8" {
		t.Errorf("the program sees %+v", r)
	}
	if r.Stdin != "" || r.StdinRaw != 0 {
		t.Errorf("standard input is not at its end: %q and %d bytes", r.Stdin, r.StdinRaw)
	}
}

func caseWorkspace(t *testing.T, s *suite) {
	b := s.any(t)
	b.put(t, "cwd-in.txt", "from outside")
	o := b.ok(t, Program{ReadFile("cwd-in.txt"), WriteFile("cwd-out.txt", "from inside")})
	if string(o.stdout) != "from outside\n" {
		t.Errorf("the program read %q", head(o.stdout))
	}
	if got, err := b.get(t, "cwd-out.txt"); err != nil || string(got) != "from inside" {
		t.Errorf("the program's file holds %q, %v", head(got), err)
	}
}

func caseException(t *testing.T, s *suite) {
	b := s.any(t)
	o := b.run(t, Program{Print("before"), Raise("ValueError", "no good: é"), Print("after")}, withFilename("analysis.py"))
	if o.exit.Outcome != wire.OutcomeException || o.exit.State != wire.StateKept || o.exit.Exception == nil {
		t.Fatalf("exit: %+v", o.exit)
	}
	if string(o.stdout) != "before\n" {
		t.Errorf("stdout %q", head(o.stdout))
	}
	e := o.exit.Exception
	if e.Name != "ValueError" || e.Message != "no good: é" || !strings.Contains(e.Traceback, "ValueError: no good: é") {
		t.Errorf("exception: %+v", e)
	}
	if len(e.Frames) == 0 {
		t.Fatal("an exception without frames")
	}
	for _, f := range e.Frames {
		if f.File != "analysis.py" || f.Line < 1 {
			t.Errorf("a frame that is not the program's: %+v", f)
		}
	}
	if last := e.Frames[len(e.Frames)-1]; !strings.Contains(last.Text, "raise") {
		t.Errorf("the last frame shows %q", last.Text)
	}
	b.usable(t)
}

// caseBroken: a source that does not compile runs nothing and costs nothing.
func caseBroken(kind string, names ...string) func(*testing.T, *suite) {
	return func(t *testing.T, s *suite) {
		b := s.any(t)
		b.ok(t, Program{Set("broken", 7)})
		o := b.run(t, Program{Print("never"), Broken(kind)})
		if o.exit.Outcome != wire.OutcomeException || o.exit.Exception == nil || !slices.Contains(names, o.exit.Exception.Name) {
			t.Fatalf("ended %s, want one of %v", describe(o.exit), names)
		}
		if o.exit.Exception.Message == "" || bytes.Contains(o.stdout, []byte("never")) {
			t.Errorf("message %q, stdout %q", o.exit.Exception.Message, head(o.stdout))
		}
		if o := b.ok(t, Program{Show("broken")}); string(o.stdout) != "7\n" {
			t.Errorf("a variable became %q", head(o.stdout))
		}
	}
}

// caseEncoding sends a source that declares another encoding than UTF-8.
func caseEncoding(t *testing.T, s *suite) {
	latin1 := func(source []byte) []byte {
		first, rest, _ := bytes.Cut(source, []byte("\n"))
		rest = bytes.ReplaceAll(rest, []byte(`\U000000e9`), []byte("\xe9"))
		return bytes.Join([][]byte{first, []byte("# -*- coding: latin-1 -*-"), rest}, []byte("\n"))
	}
	o := s.any(t).ok(t, Program{Print("café")}, withSource(latin1))
	if string(o.stdout) != "café\n" {
		t.Errorf("stdout %q", head(o.stdout))
	}
}
