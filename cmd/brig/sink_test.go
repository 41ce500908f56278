package main

import (
	"bytes"
	"errors"
	"strings"
	"syscall"
	"testing"

	"brig/orchestrator/wire"
)

// screen is a console over buffers; on a terminal both outputs are the same one.
func screen(terminal bool) (c *console, stdout, stderr *bytes.Buffer) {
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	c = &console{
		stdout: &stream{w: stdout, cursor: &cursor{}},
		stderr: &stream{w: stderr, cursor: &cursor{}},
	}
	if terminal {
		stderr = stdout
		at := &cursor{}
		for _, s := range []*stream{c.stdout, c.stderr} {
			s.w, s.cursor, s.terminal, s.width = stdout, at, true, 60
		}
	}
	return c, stdout, stderr
}

func feed(t *testing.T, s *sink, events ...wire.Event) {
	t.Helper()
	for _, e := range events {
		if err := s.emit(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.finish(); err != nil {
		t.Fatal(err)
	}
}

func out(text string) wire.Event { return wire.Event{Kind: wire.EventStdout, Data: []byte(text)} }
func errs(text string) wire.Event {
	return wire.Event{Kind: wire.EventStderr, Data: []byte(text)}
}

func result(text string) wire.Event {
	return wire.Event{Kind: wire.EventDisplay, Display: &wire.Display{
		Role: "result", Data: []wire.Part{{MIME: "text/plain", Data: []byte(text)}},
	}}
}

func TestOutputIsRawIntoAPipeAndEscapedOnATerminal(t *testing.T) {
	c, stdout, _ := screen(false)
	feed(t, newSink(c, false, true, ".", 1<<20), out("\x1b[31m\xff"), result("5"))
	if got, want := stdout.String(), "\x1b[31m\xff\n5\n"; got != want {
		t.Errorf("pipe: %q, want %q", got, want)
	}
	c, stdout, _ = screen(true)
	feed(t, newSink(c, false, true, ".", 1<<20),
		out("\x1b[31m\xe6"), errs("mine\x1b[2J"), out("\xbc\xa2"), result("\x1b]0;title\a"), out("\xff\xe6"))
	if got, want := stdout.String(), `\x1b[31mmine\x1b[2J漢`+"\n"+`\x1b]0;title\x07`+"\n"+`\xff\xe6`; got != want {
		t.Errorf("terminal: %q, want %q", got, want)
	}
}

// TestOwnLinesBeginFresh: no program can make a line of brig's own continue its line.
func TestOwnLinesBeginFresh(t *testing.T) {
	c, screenText, _ := screen(true)
	s := newSink(c, false, true, ".", 1<<20)
	feed(t, s, out("brig: all is well\r"), wire.Event{Kind: wire.EventGap, Stream: wire.StreamStdout, Dropped: 7})
	if got, want := screenText.String(), "brig: all is well\r\nbrig: 7 bytes of stdout left out here (beyond the output limit)\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestWriteErrorEndsTheRun(t *testing.T) {
	c, _, _ := screen(false)
	c.stdout.w = broken{}
	err := newSink(c, false, true, ".", 1<<20).emit(out("x"))
	var failed *writeError
	if !errors.As(err, &failed) || !errors.Is(err, syscall.EPIPE) || c.stdout.failed == nil {
		t.Errorf("emit = %v", err)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// TestJSONIsBounded: a runner that code took over cannot fill brig's memory.
func TestJSONIsBounded(t *testing.T) {
	c, stdout, stderr := screen(false)
	s := newSink(c, true, true, ".", 1<<10)
	big := strings.Repeat("x", 1<<20)
	feed(t, s, out(big), out(big), errs("y"))
	if got := s.kept[wire.StreamStdout].Len(); got != 1<<20+1<<10 {
		t.Errorf("%d bytes were kept", got)
	}
	if len(s.gaps) != 1 || s.gaps[0].Stream != "stdout" || s.gaps[0].Bytes != 1<<20-1<<10 {
		t.Errorf("gaps: %+v", s.gaps)
	}
	if stdout.Len()+stderr.Len() > 0 {
		t.Errorf("it printed %q and %q", stdout, stderr)
	}
}

func TestDisplaysWithoutTextOrPictureAreCounted(t *testing.T) {
	c, stdout, stderr := screen(false)
	feed(t, newSink(c, false, true, ".", 1<<20), wire.Event{Kind: wire.EventDisplay, Display: &wire.Display{
		Role: "display", Data: []wire.Part{{MIME: "text/html", Data: []byte("<b>x</b>")}},
	}})
	if stdout.Len() > 0 || stderr.String() != "brig: 1 display without a text form not shown; to see them: brig run --json\n" {
		t.Errorf("%q, %q", stdout, stderr)
	}
}
