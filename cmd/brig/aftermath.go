package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"brig/orchestrator/sandbox"
)

// This file is about what a run leaves when it has ended: what was asked for and
// did not arrive, the file with its full output, what the machine had to say. None
// of it changes how the run ended, and none of it is lost with the rest.

// mostNamed bounds how many of a kind are named one by one. Code can leave as
// many as it likes; --json lists them all under "left".
const mostNamed = 10

// undelivered says what was asked for and did not arrive.
func (e *execution) undelivered() []string {
	var lost []string
	for _, s := range e.brought.left {
		if s.lost {
			lost = append(lost, "not brought back: "+s.String())
		}
	}
	if e.out != nil {
		lost = append(slices.Clone(e.result.NotBrought), lost...)
	}
	lost = append(few(lost), few(e.sink.unsaved)...)
	if e.closing != nil {
		lost = append(lost, "the session did not end well: "+sentences(e.closing))
	}
	return lost
}

// remarks are what did not come along and never does.
func (e *execution) remarks() []string {
	var out, links []string
	if e.result.Stdout.Incomplete || e.result.Stderr.Incomplete {
		out = append(out, "the output may be incomplete: the end of the run was not seen")
	}
	for _, s := range e.brought.left {
		if !s.lost {
			links = append(links, "not brought back: "+s.String())
		}
	}
	if e.out != nil {
		for _, s := range e.result.NotCarried {
			if !slices.Contains(e.result.NotBrought, s) {
				links = append(links, s)
			}
		}
	}
	out = append(out, few(links)...)
	if n := e.sink.figures.over; n > 0 {
		out = append(out, fmt.Sprintf("%s more were not saved: one run leaves at most %d", count(n, "figure"), maxFigures))
	}
	return out
}

// sentences are the distinct ones of an error that joins several.
func sentences(err error) string {
	var distinct []string
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(distinct, line) {
			distinct = append(distinct, line)
		}
	}
	return strings.Join(distinct, "; ")
}

// few keeps the first of many sentences and counts the rest.
func few(all []string) []string {
	if len(all) <= mostNamed {
		return all
	}
	return append(slices.Clone(all[:mostNamed]), fmt.Sprintf("and %d more like that; all of them: brig run --json", len(all)-mostNamed))
}

// code is brig's exit code. A program that ended well has not succeeded when what
// was asked for beside its output did not arrive.
func (e *execution) code() exitCode {
	code := exitOf(e.result.Cause, e.result.Status, e.result.Signal)
	if e.result.Cause == sandbox.Cancelled {
		code = exitFailed // somebody else's doing, such as brig session rm
		if signalled, ok := e.signals.exit(); ok {
			code = signalled
		}
	}
	if code == exitOK && len(e.undelivered()) > 0 {
		code = exitFailed
	}
	return code
}

// extra is what the detail of a result says beyond its cause.
func (e *execution) extra() string {
	plain := ""
	switch e.result.Cause {
	case sandbox.OK, sandbox.Exception:
	case sandbox.Exit:
		plain = fmt.Sprintf("it ended with status %d", e.result.Status)
	case sandbox.Interrupted:
		plain = "it was interrupted"
	default:
		return "" // shown with the cause
	}
	sentences := strings.Split(e.result.Detail, "; ") // as orchestrator.Result has them
	var told []string                                 // with the files
	if e.out != nil {
		told = strings.Split(strings.Join(e.result.NotCarried, "; "), "; ")
	}
	sentences = slices.DeleteFunc(sentences, func(s string) bool { return s == "" || s == plain || slices.Contains(told, s) })
	return escapeLine(strings.Join(sentences, "; "))
}

// runLog is the file with the full output, in --json.
type runLog struct {
	Kept    bool   `json:"kept"`           // it was brought back
	Path    string `json:"path,omitempty"` // on this machine, if kept
	Bytes   int64  `json:"bytes"`          // how much the file holds, or held
	Dropped int64  `json:"dropped"`        // how much of the output it does not hold
	Error   string `json:"error,omitempty"`
	asked   bool   // --out was given
}

func (e *execution) log() *runLog {
	log := e.result.Log
	if log == nil {
		return nil
	}
	l := &runLog{Bytes: log.Bytes, Dropped: log.Dropped, Error: log.Error}
	if e.out != nil {
		l.asked = true
		path := filepath.Join(e.out.dir, filepath.FromSlash(log.Path))
		if l.Kept = slices.Contains(e.brought.files, path); l.Kept {
			l.Path = path
		}
	}
	return l
}

// words says where the full output is, and how much of it.
func (l *runLog) words() string {
	total := size(l.Bytes + l.Dropped)
	why := "limits.output_logged"
	if l.Error != "" {
		why = escapeLine(l.Error)
	}
	switch {
	case l.Kept && l.Dropped == 0:
		return fmt.Sprintf("the full output (%s) is in %s", total, escapeLine(l.Path))
	case l.Kept:
		return fmt.Sprintf("the first %s of %s of output are in %s (%s)", size(l.Bytes), total, escapeLine(l.Path), why)
	case l.asked:
		return fmt.Sprintf("the full output had %s; the file with it did not come back", total)
	case l.Dropped == 0:
		return fmt.Sprintf("the full output had %s; to keep it: brig run --out DIR", total)
	case l.Bytes == 0:
		return fmt.Sprintf("the full output had %s, and none of it could be logged (%s)", total, why)
	default:
		return fmt.Sprintf("the full output had %s; to keep the first %s (%s): brig run --out DIR", total, size(l.Bytes), why)
	}
}
