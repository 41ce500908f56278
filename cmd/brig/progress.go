package main

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"brig/images"
)

// tailLines is how much of what a build step said is shown when it fails.
const tailLines = 15

// progress draws a build on standard error: on a terminal one line per step,
// which shows what the step says while it lasts; elsewhere one plain line per
// step. It is used by one goroutine.
type progress struct {
	s       *stream
	started time.Time
	step    int
	title   string
	begun   time.Time
	tail    []string
}

func newProgress(s *stream) *progress { return &progress{s: s, started: time.Now()} }

func (p *progress) show(e images.Progress) {
	line := strings.TrimSpace(escapeLine(e.Text))
	if e.Note {
		p.s.wipe()
		io.WriteString(p.s.w, "brig: "+line+"\n")
		return
	}
	if e.Instruction {
		p.endStep()
		p.step, p.begun = e.Step, time.Now()
		p.title = fmt.Sprintf("step %d/%d  %s", e.Step, e.Total, line)
		p.tail = nil
		if !p.s.terminal {
			io.WriteString(p.s.w, "brig: "+cut(p.title, 100)+"\n")
		}
	}
	if !e.Instruction && line != "" {
		p.tail = append(p.tail, line)
		if len(p.tail) > tailLines {
			p.tail = p.tail[1:]
		}
	}
	if p.s.terminal {
		p.draw(line, e.Instruction)
	}
}

// draw replaces the live line.
func (p *progress) draw(line string, instruction bool) {
	text := p.title
	if !instruction {
		text = cut(p.title, p.s.width/2) + "  " + line
	}
	p.s.wipe()
	io.WriteString(p.s.w, p.s.styled(styleDim, cut("brig: "+text, p.s.width-1)))
	p.s.cursor.live, p.s.cursor.mid = true, true
}

// endStep leaves a line for a step that took long enough to wonder about.
func (p *progress) endStep() {
	if !p.s.terminal || p.step == 0 {
		return
	}
	p.s.wipe()
	if took := time.Since(p.begun); took >= time.Second {
		line := fmt.Sprintf("brig: %s  (%s)", cut(p.title, p.s.width-20), took.Round(time.Second))
		io.WriteString(p.s.w, p.s.styled(styleDim, line)+"\n")
	}
}

// done ends the drawing; after a failure it shows what the last step said.
func (p *progress) done(err error) {
	if p.step == 0 {
		return
	}
	p.endStep()
	if err == nil {
		io.WriteString(p.s.w, fmt.Sprintf("brig: image built in %s\n", time.Since(p.started).Round(time.Second)))
		return
	}
	for _, line := range p.tail {
		io.WriteString(p.s.w, "  "+line+"\n")
	}
}

// cut shortens a line to at most n characters.
func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n || n < 1 {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}
