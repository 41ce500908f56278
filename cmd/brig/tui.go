package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// This file is what brig says for itself. The rules: results go to standard
// output and nothing else does; everything else goes to standard error with the
// prefix "brig: ", no capitalised initials, no full stop at the end, and what is
// wrong ends with a hint that holds the next command to type.

const (
	styleDim     = "\x1b[2m"
	styleWarning = "\x1b[1;33m"
	styleError   = "\x1b[1;31m"
	styleReset   = "\x1b[0m"
)

// stream is one of brig's two outputs.
type stream struct {
	w        io.Writer
	terminal bool
	colour   bool
	width    int
	cursor   *cursor
	failed   error // the first write that did not go through; told once, at the end
}

// cursor knows whether something stands on the current line. The two streams
// share one when both are terminals, because that is nearly always the same one.
type cursor struct {
	mid  bool // a line has begun and has no newline yet
	live bool // that line is a progress line, which may be wiped
}

// Write passes bytes on as they are.
func (s *stream) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	s.wipe()
	s.cursor.mid = p[len(p)-1] != '\n'
	n, err := s.w.Write(p)
	if err != nil && s.failed == nil {
		s.failed = err
	}
	return n, err
}

// wipe removes a progress line, so that what follows begins on a clean line.
func (s *stream) wipe() {
	if s.cursor.live {
		s.cursor.live, s.cursor.mid = false, false
		io.WriteString(s.w, "\r\x1b[K")
	}
}

// fresh ends a line that something else began.
func (s *stream) fresh() error {
	s.wipe()
	if !s.cursor.mid {
		return nil
	}
	_, err := s.Write([]byte("\n"))
	return err
}

func (s *stream) styled(style, text string) string {
	if !s.colour {
		return text
	}
	return style + text + styleReset
}

// console is both outputs of brig.
type console struct{ stdout, stderr *stream }

func newConsole(stdout, stderr *os.File, lookup func(string) (string, bool)) *console {
	c := &console{stdout: newStream(stdout, lookup), stderr: newStream(stderr, lookup)}
	if c.stdout.terminal && c.stderr.terminal {
		c.stdout.cursor = c.stderr.cursor
	}
	return c
}

func newStream(f *os.File, lookup func(string) (string, bool)) *stream {
	s := &stream{w: f, terminal: term.IsTerminal(int(f.Fd())), width: 80, cursor: &cursor{}}
	if !s.terminal {
		return s
	}
	if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 20 {
		s.width = w
	}
	noColour, _ := lookup("NO_COLOR")
	kind, _ := lookup("TERM")
	s.colour = noColour == "" && kind != "dumb" && enableColour(f)
	return s
}

// say prints one line of brig's own on standard error. A message that cannot be
// written has nowhere else to go, so write errors end here.
func (c *console) say(style, text string) {
	s := c.stderr
	if s.fresh() != nil {
		return
	}
	line := "brig: " + text
	if style != "" {
		line = s.styled(style, line)
	}
	io.WriteString(s.w, line+"\n")
}

// note prints something worth knowing.
func (c *console) note(format string, a ...any) { c.say("", fmt.Sprintf(format, a...)) }

// dim prints what is there for who looks for it.
func (c *console) dim(text string) { c.say(styleDim, text) }

// warn prints something that must not be missed.
func (c *console) warn(text string) { c.say(styleWarning, text) }

// hint prints the next command to type.
func (c *console) hint(text string) {
	for _, line := range strings.Split(text, "\n") {
		io.WriteString(c.stderr.w, "hint: "+line+"\n")
	}
}

// fail prints an error and what to do about it.
func (c *console) fail(f *failure) {
	s := c.stderr
	if s.fresh() != nil {
		return
	}
	io.WriteString(s.w, "brig: "+s.styled(styleError, "error:")+" "+escapeLine(f.Message)+"\n")
	if f.Remedy != "" {
		c.hint(f.Remedy)
	}
}
