package main

import (
	"bytes"
	"fmt"
	"io"

	"brig/orchestrator/wire"
)

// sink is where the events of a run go: on brig's own outputs, or, with --json,
// into the answer. Its emit is called by one goroutine.
type sink struct {
	tui        *console
	json       bool
	showResult bool
	figures    *figures

	stdout, stderr io.Writer
	flush          []*escaper
	kept           map[uint32]*capped // with --json
	displays       []display
	gaps           []gap
	untold         int      // displays that could not be shown as text nor saved
	unsaved        []string // figures that could not be saved, with the reason
}

// display is a display in --json: text as it is, pictures as files.
type display struct {
	Role string            `json:"role"`
	Data map[string]text   `json:"data"`
	File map[string]string `json:"files,omitempty"`
}

// gap is output that is missing, in --json.
type gap struct {
	Stream string `json:"stream"`
	Bytes  int64  `json:"bytes"`
	Slow   bool   `json:"slow,omitempty"`
}

// capped keeps what fits. The runner keeps to its bound; this one is for a
// runner that code took over.
type capped struct {
	bytes.Buffer
	limit int64
	lost  int64
}

func (c *capped) Write(p []byte) (int, error) {
	room := max(0, min(int64(len(p)), c.limit-int64(c.Len())))
	c.lost += int64(len(p)) - room
	c.Buffer.Write(p[:room])
	return len(p), nil
}

// newSink makes a sink; kept is the bound of one stream that was agreed with the runner.
func newSink(tui *console, asJSON, showResult bool, dir string, kept int64) *sink {
	s := &sink{tui: tui, json: asJSON, showResult: showResult, figures: &figures{dir: dir}}
	if asJSON {
		// Late output comes on top of what is kept.
		s.kept = map[uint32]*capped{
			wire.StreamStdout: {limit: kept + 1<<20}, wire.StreamStderr: {limit: kept + 1<<20},
		}
		s.stdout, s.stderr = s.kept[wire.StreamStdout], s.kept[wire.StreamStderr]
		return s
	}
	s.stdout, s.stderr = s.printer(tui.stdout), s.printer(tui.stderr)
	return s
}

// printer is how the text of a program gets onto an output: raw into a file or a
// pipe, escaped onto a terminal.
func (s *sink) printer(out *stream) io.Writer {
	if !out.terminal {
		return out
	}
	e := &escaper{w: out}
	s.flush = append(s.flush, e)
	return e
}

// emit takes one event. An error of it ends the run.
func (s *sink) emit(e wire.Event) error {
	switch e.Kind {
	case wire.EventStdout:
		return write(s.stdout, e.Data)
	case wire.EventStderr:
		return write(s.stderr, e.Data)
	case wire.EventGap:
		s.gap(e)
		return nil
	case wire.EventDisplay:
		return s.display(e.Display)
	default:
		return nil
	}
}

func write(w io.Writer, p []byte) error {
	if _, err := w.Write(p); err != nil {
		return &writeError{err}
	}
	return nil
}

// writeError is brig's own output failing: its reader went away, or a disk is full.
type writeError struct{ err error }

func (e *writeError) Error() string { return "write output: " + e.err.Error() }
func (e *writeError) Unwrap() error { return e.err }

func (s *sink) gap(e wire.Event) {
	g := gap{Stream: "stdout", Bytes: e.Dropped, Slow: e.Slow}
	if e.Stream == wire.StreamStderr {
		g.Stream = "stderr"
	}
	s.gaps = append(s.gaps, g)
	if s.json {
		return
	}
	why := "beyond the output limit"
	if g.Slow {
		why = "brig's own output was not read fast enough"
	}
	s.tui.note("%s of %s left out here (%s)", size(g.Bytes), g.Stream, why)
}

// display shows a display as a notebook on a terminal would: its text, and
// pictures as files with their names.
func (s *sink) display(d *wire.Display) error {
	shown := display{Role: d.Role, Data: map[string]text{}}
	pic, ending := picture(d)
	if s.json {
		for _, part := range d.Data {
			if pic == nil || part.MIME != pic.MIME {
				shown.Data[part.MIME] = newText(part.Data)
			}
		}
	}
	var plain *wire.Part
	for i := range d.Data {
		if d.Data[i].MIME == "text/plain" {
			plain = &d.Data[i]
		}
	}
	// As in a notebook a picture stands for its text, except that a result is always printed.
	shows := pic == nil
	if d.Role == "result" {
		shows = s.showResult
	}
	if plain != nil && shows && !s.json {
		if err := s.printLine(plain.Data); err != nil {
			return err
		}
	}
	if pic != nil {
		if name := s.picture(pic, ending); name != "" {
			shown.File = map[string]string{pic.MIME: name}
		} else if s.json {
			shown.Data[pic.MIME] = newText(pic.Data)
		}
	} else if plain == nil {
		s.untold++
	}
	if s.json {
		s.displays = append(s.displays, shown)
	}
	return nil
}

// printLine prints a value on lines of its own on standard output.
func (s *sink) printLine(b []byte) error {
	for _, e := range s.flush {
		if err := e.Flush(); err != nil {
			return &writeError{err}
		}
	}
	if err := s.tui.stdout.fresh(); err != nil {
		return &writeError{err}
	}
	if !bytes.HasSuffix(b, []byte("\n")) {
		b = append(bytes.Clone(b), '\n')
	}
	return write(s.stdout, b)
}

// picture saves a picture. One that cannot be saved does not end the run, but
// it is said, at once where somebody may be watching.
func (s *sink) picture(part *wire.Part, ending string) string {
	name, err := s.figures.save(part, ending)
	switch {
	case err != nil:
		s.unsaved = append(s.unsaved, fmt.Sprintf("a figure could not be saved in %s: %s", s.figures.dir, because(err)))
		if len(s.unsaved) == 1 && !s.json {
			s.tui.warn(escapeLine(s.unsaved[0]))
			s.tui.hint("name a directory that can be written: brig run --out DIR")
		}
	case name != "" && !s.json:
		s.tui.note("figure: %s", name)
	}
	return name
}

// finish writes what is still held back and says what was not shown.
func (s *sink) finish() error {
	for _, e := range s.flush {
		if err := e.Flush(); err != nil {
			return &writeError{err}
		}
	}
	if s.json {
		for id, name := range map[uint32]string{wire.StreamStdout: "stdout", wire.StreamStderr: "stderr"} {
			if lost := s.kept[id].lost; lost > 0 {
				s.gaps = append(s.gaps, gap{Stream: name, Bytes: lost})
			}
		}
		return nil
	}
	if more := len(s.unsaved) - 1; more > 0 {
		s.tui.warn(count(more, "further figure") + " could not be saved")
	}
	if s.untold > 0 {
		s.tui.note("%s without a text form not shown; to see them: brig run --json", count(s.untold, "display"))
	}
	return nil
}
