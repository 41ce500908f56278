package selftest

import (
	"time"

	"brig/orchestrator/sandbox"
)

// Probe is one forbidden operation. It is inert: the attempt itself is the function
// of the same ID in attempts/*.py, or a drive of this package.
type Probe struct {
	ID       string // "<area>-<what>", such as files-read-home; constant, stands in reports
	Layer    sandbox.LayerID
	Claim    string // one sentence with a full stop, as the README's table shows it
	Attempt  string // what is attempted, lower case, no full stop
	Observed string // how success is seen from outside, lower case, no full stop
	Witness  Witness
	// Blocked lists the evidence that counts as blocked; anything else that is no
	// success is inconclusive. A time-out never is in it.
	Blocked []Evidence
	// Trace, with Witness Decoy, is what shows on the decoy when it was reached:
	// "signal:USR1", "nice", "nofile", "oom", "sched", "affinity", "ioprio", "exit". Empty: its secret comes back.
	Trace    string
	Severity Severity
	Fix      string // what a person can do when it gets through: a command or a setting
	// Gaps are codes of posture rows, as path.Match patterns, that say of themselves
	// that this operation is open: where such a row is not enforced, success is what
	// the posture said.
	Gaps  []string
	Stage Stage
	Bound time.Duration // of one attempt; zero: AttemptBound
	Archs []string      // GOARCH values it exists on; nil: all
	// Systems are GOOS values that its attempt is written for; nil: all. Elsewhere what
	// it is about does not exist, or is had in a way that another probe tries.
	Systems []string
}

// AttemptBound is how long one attempt may take. Reaching it is inconclusive.
const AttemptBound = time.Second

// Evidence is one way in which an attempt was seen to fail. Step is the step of the
// attempt that failed ("socket", "connect", "open"), empty for any; Sign is an errno's
// name ("EACCES"), a signal's ("SIGSYS"), a cause of the session's end ("cause:memory"),
// or "absent": what was sought is not there. By names what stood in the way.
type Evidence struct {
	Step string `json:"step,omitempty"`
	Sign string `json:"sign"`
	By   string `json:"by"`
}

// Witness says who sees that an attempt succeeded.
type Witness string

const (
	Listener Witness = "listener" // a listener of brig's got the attempt's token
	Canary   Witness = "canary"   // a file of brig's was read (its content came back) or changed
	Decoy    Witness = "decoy"    // a process of brig's was signalled, read or changed
	Counter  Witness = "counter"  // brig's or the kernel's count from outside
	Clock    Witness = "clock"    // brig's clock
	// Program: the operation leaves no trace outside, so the kernel's answer to the call is all there is.
	Program Witness = "program"
)

// Severity is what it means when the operation gets through.
type Severity string

const (
	Critical Severity = "critical" // the user's files, network or account are open
	High     Severity = "high"     // other programs of the user can be disturbed or read
	Medium   Severity = "medium"   // the machine's resources are unbounded, or more of the kernel is exposed
	Low      Severity = "low"
)

// Stage is the kind of session that a probe needs.
type Stage string

const (
	// Shared probes run one after another in one session with the user's own limits,
	// and again in one that was taken from prepared instances.
	Shared Stage = "shared"
	// Limits probes run in sessions of the same kind with small limits, so that
	// reaching them costs the machine little.
	Limits Stage = "limits"
)
