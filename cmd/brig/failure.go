package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"brig/orchestrator"
	"brig/orchestrator/api"
	"brig/orchestrator/config"
	"brig/orchestrator/sandbox"
)

// failure is an error as a person sees it: one sentence, the next command to
// type, and a code for programs. Every error that leaves a verb becomes one.
type failure struct {
	Code    string   `json:"code"`
	Message string   `json:"message"`
	Remedy  string   `json:"remedy,omitempty"`
	Exit    exitCode `json:"exit_code"`
	// Refusals are the backends that were passed over, each with its own remedy.
	Refusals []orchestrator.Refusal `json:"refusals,omitempty"`
	// Done are the names for which the verb did its work, where others failed.
	Done  []string `json:"done,omitempty"`
	err   error
	quiet bool // nobody is left to read it
}

func (f *failure) Error() string { return f.Message }
func (f *failure) Unwrap() error { return f.err }

// failed is a failure where a result would stand: "cause" is there in every answer.
type failed struct {
	Cause    sandbox.Cause `json:"cause"`
	ExitCode exitCode      `json:"exit_code"`
	Error    *failure      `json:"error"`
}

// cause is the failure in the words of results. Nothing ran, or no end was seen.
func (f *failure) cause() sandbox.Cause {
	switch f.Code {
	case "cancelled":
		return sandbox.Cancelled
	case "backend-lost", string(api.CodeInterruptedIO):
		return sandbox.BackendLost
	case "failed", "output", string(api.CodeInternal):
		return sandbox.Internal
	}
	return sandbox.Refused
}

// usage is a mistake on the command line.
func usage(remedy, format string, a ...any) *failure {
	return &failure{Code: "usage", Message: fmt.Sprintf(format, a...), Remedy: remedy, Exit: exitFailed}
}

// input is a source, a file or a directory that brig cannot take.
func input(remedy, format string, a ...any) *failure {
	return &failure{Code: "input", Message: fmt.Sprintf(format, a...), Remedy: remedy, Exit: exitFailed}
}

// explain turns any error into a failure. It is the only place that does.
func explain(err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		if f.Exit == 0 { // a failure never looks like a success
			f.Exit = exitFailed
		}
		return f
	}
	var unavailable *sandbox.Unavailable
	if errors.As(err, &unavailable) {
		return &failure{Code: unavailable.Code, Message: unavailable.Reason, Remedy: unavailable.Remedy, Exit: exitFailed, err: err}
	}
	var refused *orchestrator.RefusedError
	if errors.As(err, &refused) {
		return &failure{
			Code: refused.Code, Message: refused.Reason, Remedy: strings.Join(remediesFor(refusalsOf(refused)), "\n"),
			Refusals: refusalsOf(refused), Exit: exitFailed, err: err,
		}
	}
	var settings *config.Error
	if errors.As(err, &settings) {
		return explainSettings(settings)
	}
	var problem *api.Problem
	if errors.As(err, &problem) {
		return explainProblem(problem, err)
	}
	var lost *sandbox.Lost
	if errors.As(err, &lost) {
		return &failure{Code: "backend-lost", Message: lost.Error(), Remedy: askDoctor, Exit: exitFailed, err: err}
	}
	if errors.Is(err, context.Canceled) {
		return &failure{Code: "cancelled", Message: "interrupted before the code began", Exit: exitInterrupted, err: err}
	}
	if errors.Is(err, syscall.EMFILE) {
		return &failure{Code: "failed", Message: err.Error(), Remedy: "ulimit -n 1024", Exit: exitFailed, err: err}
	}
	return &failure{Code: "failed", Message: sentences(err), Remedy: askDoctor, Exit: exitFailed, err: err}
}

// askDoctor is the remedy where nothing better is known.
const askDoctor = "brig doctor"

// refusalsOf are all the refusals that an error sums up.
func refusalsOf(e *orchestrator.RefusedError) []orchestrator.Refusal {
	if len(e.Met) == 0 {
		return []orchestrator.Refusal{e.Refusal}
	}
	return e.Met
}

// remediesFor are what to do about refusals, one line each. Any of them helps; where
// there are several, each says which backend it is for.
func remediesFor(met []orchestrator.Refusal) []string {
	var own []orchestrator.Refusal
	for _, r := range met {
		known := slices.ContainsFunc(own, func(o orchestrator.Refusal) bool { return o.Remedy == r.Remedy })
		if r.Remedy != "" && !known {
			own = append(own, r)
		}
	}
	var lines []string
	for _, r := range own {
		line := r.Remedy
		if len(own) > 1 {
			line = fmt.Sprintf("for %s: %s", r.Kind, line)
		}
		lines = append(lines, line)
	}
	return lines
}

// explainProblem is what the brig that stays answered.
func explainProblem(p *api.Problem, err error) *failure {
	f := &failure{Code: string(p.Code), Message: cmp.Or(p.Detail, strings.ToLower(p.Title)), Remedy: cmp.Or(p.Remedy, askDoctor), Exit: exitFailed, err: err}
	if p.Code == api.CodeInvalid && len(p.Errors) > 0 || strings.Contains(f.Remedy, "openapi") {
		f.Remedy = "brig help" // the description of the API is for programs
	}
	for _, e := range p.Errors {
		if strings.Contains(f.Message, e.Message) { // told already
			continue
		}
		f.Message += fmt.Sprintf("; %s: %s", e.Location, e.Message)
	}
	if p.Code == api.CodeInternal && p.Instance != "" {
		f.Message += " (request " + p.Instance + " in brig's log)"
	}
	return f
}

// explainSettings names the first problem; "brig config check" shows them all.
func explainSettings(e *config.Error) *failure {
	f := &failure{Code: "settings", Message: e.Problems[0].String(), Remedy: "brig config check", Exit: exitFailed, err: e}
	if more := len(e.Problems) - 1; more > 0 {
		f.Message += "; and " + count(more, "more problem")
	}
	return f
}

// because is the reason inside a file system error, without the path that the
// sentence around it names already.
func because(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}
