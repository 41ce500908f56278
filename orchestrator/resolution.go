package orchestrator

import "brig/orchestrator/sandbox"

// Resolution is how the configured backend became the one that is used.
type Resolution struct {
	Configured sandbox.Kind `json:"configured"`
	Requested  sandbox.Kind `json:"requested,omitempty"` // by the caller; then there is no step-down
	Resolved   sandbox.Kind `json:"resolved,omitempty"`  // empty when refused
	Mode       sandbox.Mode `json:"mode,omitempty"`      // of the host sandbox, when that was resolved
	// Degraded says that another backend than the wanted one runs the code.
	Degraded bool `json:"degraded"`
	// Weakened says that the resolved backend does not enforce a layer that it
	// promises: a forecast until an instance is bound, evidence from then on.
	Weakened bool `json:"weakened"`
	// Refusals are the backends that were passed over, in the order met.
	Refusals []Refusal `json:"refusals,omitempty"`
	// Gaps are the promised layers that are not enforced.
	Gaps []sandbox.Layer `json:"gaps,omitempty"`
	// Opened are layers that are not enforced because host.network opened them:
	// a forecast until an instance is bound, evidence from then on.
	Opened []sandbox.Layer `json:"opened,omitempty"`
	// Err is set when nothing may run.
	Err *RefusedError `json:"refused,omitempty"`
}

// Refusal is one backend that could not or may not be used.
type Refusal struct {
	Kind   sandbox.Kind `json:"kind"`
	Code   string       `json:"code"`
	Reason string       `json:"reason"`           // lower case, no full stop
	Remedy string       `json:"remedy,omitempty"` // the next command to type
}

// RefusedError says that nothing runs, and why. Its fields are for callers that
// show the remedy on a line of its own; its text holds both.
type RefusedError struct {
	Refusal
	// Met are the refusals on the way, this one last.
	Met []Refusal `json:"met,omitempty"`
}

// Error is the reason and the next command to type.
func (e *RefusedError) Error() string {
	if e.Remedy == "" {
		return e.Reason
	}
	return e.Reason + "; try: " + e.Remedy
}

// Verdict is what the self-test saw for one layer on this boot.
type Verdict = sandbox.Verdict

const (
	Blocked      = sandbox.Blocked
	Allowed      = sandbox.Allowed
	Inconclusive = sandbox.Inconclusive
	NotSupported = sandbox.NotSupported
)
