package selftest

import (
	"time"

	"brig/orchestrator/sandbox"
)

// ReportFormat is the version of the report's JSON.
const ReportFormat = 1

// Report is what one run on one subject saw.
type Report struct {
	Format  int          `json:"format"`
	ID      string       `json:"id"`
	Started time.Time    `json:"started"`
	Took    Duration     `json:"took_ns"`
	Brig    string       `json:"brig"` // version
	Machine Machine      `json:"machine"`
	Backend sandbox.Kind `json:"backend"`
	Variant string       `json:"variant,omitempty"` // "runc", "best-effort"
	// Policy is the digest of what the backend forecast for this base, by which a
	// later brig tells whether the report is about what it would run.
	Policy  string          `json:"policy"`
	Posture sandbox.Posture `json:"posture"` // of the session of the Shared stage
	Holds   Holds           `json:"holds"`
	Line    string          `json:"line"`   // the one line: "contained as promised"
	Layers  []LayerResult   `json:"layers"` // one per sandbox.Layers, in that order
	Probes  []Result        `json:"probes"` // in the catalogue's order
	Notes   []string        `json:"notes,omitempty"`
}

// Duration marshals as nanoseconds.
type Duration = time.Duration

// Machine is where the report was made. BootID changes with every start of the system.
type Machine struct {
	BootID string `json:"boot_id,omitempty"`
	OS     string `json:"os"`
	Arch   string `json:"arch"`
	Kernel string `json:"kernel,omitempty"`
	UID    int    `json:"uid"`
}

// Holds is the outcome of a whole run.
type Holds string

const (
	Held         Holds = "held"           // contained as promised
	Weaker       Holds = "weaker"         // something promised does not hold, or the posture says more than holds
	CouldNotTell Holds = "could-not-tell" // nothing got through that was promised, and not everything could be decided
)

// LayerResult is one layer: what the posture says beside what was seen.
type LayerResult struct {
	Layer    sandbox.Layer   `json:"layer"` // as the posture has it
	Promised bool            `json:"promised"`
	Verdict  sandbox.Verdict `json:"verdict"`
	// Lied: the posture says that the layer is enforced, and something got through.
	Lied   bool   `json:"lied,omitempty"`
	Reason string `json:"reason,omitempty"` // in one sentence, lower case, where the verdict is not blocked
}

// Result is one probe: worst verdict first among its attempts.
type Result struct {
	Probe    string          `json:"probe"`
	Layer    sandbox.LayerID `json:"layer"`
	Severity Severity        `json:"severity"`
	Verdict  sandbox.Verdict `json:"verdict"`
	Reason   string          `json:"reason"`             // why that verdict, lower case
	By       string          `json:"by,omitempty"`       // what stood in the way
	Expected bool            `json:"expected,omitempty"` // it got through, and the posture says so
	// Unproven: every attempt failed as predicted, and it is open only because the control failed as well.
	Unproven bool      `json:"unproven,omitempty"`
	Control  Outcome   `json:"control"`
	Attempts []Attempt `json:"attempts"`
}

// Attempt is a probe in one session.
type Attempt struct {
	In      string          `json:"in"` // "fresh", "warm", "limits"
	Verdict sandbox.Verdict `json:"verdict"`
	Outcome Outcome         `json:"outcome"`
	Posture string          `json:"posture"` // digest
}
