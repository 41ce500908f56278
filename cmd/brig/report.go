package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"brig/orchestrator"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// announce says before the output begins what is weaker than configured. The
// sentences are the orchestrator's; each ends with its remedy, and those that
// share one with it.
func (p *program) announce(r orchestrator.Resolution, posture sandbox.Posture) {
	sentences := orchestrator.Warnings(r, posture)
	remedies := remediesOf(r, posture, sentences)
	for i, sentence := range sentences {
		word, rest, _ := strings.Cut(sentence, ": ")
		if off := r.Err == nil && r.Mode == sandbox.ModeOff; off && word != "degraded" {
			if i == 0 { // the user's own choice: one line says it, the rows and the JSON have the rest
				p.tui.warn(strings.ToUpper(word) + ": " + escapeLine(rest))
			}
			continue
		}
		p.tui.warn(strings.ToUpper(word) + ": " + escapeLine(rest))
		if i+1 == len(sentences) || remedies[i+1] != remedies[i] {
			p.tui.hint(remedies[i])
		}
	}
}

// remediesOf finds the remedy of each sentence of orchestrator.Warnings. Its first
// word says what it is about; those about gaps come in the order of the gaps.
func remediesOf(r orchestrator.Resolution, posture sandbox.Posture, sentences []string) []string {
	gaps := posture.Weakened()
	if len(posture.Layers) == 0 {
		gaps = r.Gaps
	}
	remedies, gap := make([]string, len(sentences)), 0
	for i, sentence := range sentences {
		remedy := ""
		switch word, _, _ := strings.Cut(sentence, ": "); {
		case r.Err != nil:
			remedy = strings.Join(remediesFor(refusalsOf(r.Err)), "\n")
		case word == "open":
			remedy = "brig config show host.network"
		case word == "degraded":
			remedy = strings.Join(remediesFor(r.Refusals), "\n")
		case word == "weakened" && gap < len(gaps):
			remedy = gaps[gap].Remedy
			gap++
		case len(gaps) > 0: // not contained at all: what closes the gaps ends that too
			remedy = gaps[0].Remedy
		}
		remedies[i] = cmp.Or(remedy, askDoctor)
	}
	return remedies
}

// report says how the run ended, after everything the program printed.
func (e *execution) report() error {
	code := e.code()
	if e.o.json {
		if err := e.p.printJSON(e.answer(code)); err != nil {
			return explainWrite(&writeError{err})
		}
		return ended(code)
	}
	tui := e.p.tui
	if x := e.result.Exception; x != nil {
		e.traceback(x)
	}
	if text, remedy := e.ending(); text != "" {
		tui.warn(text)
		if remedy != "" {
			tui.hint(remedy)
		}
	}
	if extra := e.extra(); extra != "" {
		tui.dim(extra)
	}
	e.files()
	if !e.o.quiet {
		tui.dim(strings.TrimPrefix(e.result.Stamp.Line(), "brig: "))
	}
	return ended(code)
}

// traceback prints an exception as Python does, on standard error.
func (e *execution) traceback(x *wire.Exception) {
	tb := x.Traceback
	if tb == "" {
		tb = x.Name + ": " + x.Message
	}
	if !strings.HasSuffix(tb, "\n") {
		tb += "\n"
	}
	if e.p.tui.stderr.fresh() == nil {
		// Nowhere is left to report that standard error cannot be written.
		_, _ = e.sink.stderr.Write([]byte(tb))
	}
}

// ending words an end that is brig's doing or the machine's, and what to do.
func (e *execution) ending() (text, remedy string) {
	detail := escapeLine(e.result.Detail)
	switch e.result.Cause {
	case sandbox.OK, sandbox.Exit, sandbox.Exception:
		return "", "" // the program's own end: it has said what it wanted to
	case sandbox.Timeout:
		return "timeout: " + cmp.Or(detail, "the time limit ended the run"), "allow more: brig run --timeout 2m"
	case sandbox.Interrupted:
		return "interrupted", ""
	case sandbox.Cancelled:
		if _, signalled := e.signals.exit(); signalled {
			detail = context.Cause(e.signals.ctx).Error()
		}
		return "cancelled: " + cmp.Or(detail, "the run was ended"), ""
	case sandbox.MemoryOut:
		return "memory: " + cmp.Or(detail, "the memory limit ended the run"), "raise limits.memory, see: brig config show"
	case sandbox.ProcessOut, sandbox.DiskOut, sandbox.OutputOut:
		return fmt.Sprintf("%s: %s", e.result.Cause, cmp.Or(detail, "a limit ended the run")), "see: brig config show"
	case sandbox.Killed:
		return "killed: " + cmp.Or(detail, "the interpreter died of a signal"), ""
	case sandbox.BackendLost, sandbox.Refused, sandbox.Internal:
		return fmt.Sprintf("%s: %s", e.result.Cause, cmp.Or(detail, "no end of the run was seen")), askDoctor
	default:
		panic(fmt.Sprintf("BUG: cause %q has no words", e.result.Cause))
	}
}

// files says what came back, what did not, and where the full output is.
func (e *execution) files() {
	tui := e.p.tui
	if log := e.log(); log != nil {
		tui.note("%s", log.words())
	}
	exists := false
	for _, s := range e.brought.left {
		exists = exists || s.exists
	}
	for _, lost := range e.undelivered() {
		if !slices.Contains(e.sink.unsaved, lost) { // said when it happened
			tui.warn(escapeLine(lost))
		}
	}
	if exists {
		tui.hint("to replace what is there: brig run --overwrite --out " + quote(e.out.dir))
	}
	for _, remark := range e.remarks() {
		tui.note("%s", escapeLine(remark))
	}
	if n := len(e.brought.files); n > 0 {
		tui.note("%s in %s", count(n, "file"), escapeLine(e.out.dir))
	}
}

// runAnswer is the one object of "brig run --json".
type runAnswer struct {
	Cause      sandbox.Cause           `json:"cause"`
	Detail     string                  `json:"detail,omitempty"`
	ExitCode   exitCode                `json:"exit_code"`
	Status     int                     `json:"status"`
	Signal     int                     `json:"signal,omitempty"`
	Stdout     text                    `json:"stdout"`
	Stderr     text                    `json:"stderr"`
	Result     *display                `json:"result,omitempty"`
	Displays   []display               `json:"displays,omitempty"`
	Exception  *wire.Exception         `json:"exception,omitempty"`
	Counts     map[string]wire.Count   `json:"counts"`
	Gaps       []gap                   `json:"gaps,omitempty"`
	Log        *runLog                 `json:"log,omitempty"`
	Files      []string                `json:"files,omitempty"`
	Left       []string                `json:"left,omitempty"`
	ElapsedMS  float64                 `json:"elapsed_ms"`
	QueuedMS   float64                 `json:"queued_ms"`
	State      wire.State              `json:"state"`
	Reported   bool                    `json:"runner_reported"`
	Stamp      orchestrator.Stamp      `json:"stamp"`
	Warnings   []string                `json:"warnings"`
	Posture    sandbox.Posture         `json:"posture"`
	Resolution orchestrator.Resolution `json:"resolution"`
}

func (e *execution) answer(code exitCode) runAnswer {
	r := e.result
	a := runAnswer{
		Cause: r.Cause, Detail: r.Detail, ExitCode: code, Status: r.Status, Signal: r.Signal,
		Stdout:    newText(e.sink.kept[wire.StreamStdout].Bytes()),
		Stderr:    newText(e.sink.kept[wire.StreamStderr].Bytes()),
		Exception: r.Exception, Counts: map[string]wire.Count{"stdout": r.Stdout, "stderr": r.Stderr},
		Gaps: e.sink.gaps, Log: e.log(), Files: e.brought.files,
		Left:      slices.Clone(e.uploads.skipped),
		ElapsedMS: millis(r.Elapsed), QueuedMS: millis(r.Queued), State: r.State, Reported: r.RunnerReported,
		Stamp: r.Stamp, Posture: e.venue.posture(), Resolution: e.venue.resolution(),
	}
	for _, s := range e.brought.left {
		a.Left = append(a.Left, s.String())
	}
	a.Warnings = append([]string{}, orchestrator.Warnings(a.Resolution, a.Posture)...)
	a.Warnings = append(a.Warnings, e.consent...)
	if left := e.uploads.left(); left != "" {
		a.Warnings = append(a.Warnings, left)
	}
	a.Warnings = append(append(a.Warnings, e.undelivered()...), e.remarks()...)
	for i := range e.sink.displays {
		if d := e.sink.displays[i]; d.Role == "result" {
			a.Result = &d
		} else {
			a.Displays = append(a.Displays, d)
		}
	}
	return a
}
