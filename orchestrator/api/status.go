package api

import (
	"encoding/json"
	"time"
)

// Layer is one row of what contains the code.
type Layer struct {
	ID        string `json:"id"`
	State     string `json:"state" enum:"enforced,partial,off,unsupported"`
	Mechanism string `json:"mechanism,omitempty"`
	Code      string `json:"code,omitempty"`
	Reason    string `json:"reason,omitempty"`
	Remedy    string `json:"remedy,omitempty"`
	Evidence  string `json:"evidence,omitempty" doc:"what was read back from the machine"`
	Promised  bool   `json:"promised" doc:"the backend promises it; not enforced means weakened"`
	// Verdict is of the latest self-test of this backend that is not stale.
	Verdict string `json:"verdict,omitempty" enum:"blocked,allowed,inconclusive,unsupported"`
}

// Refusal is one backend that could not or may not be used.
type Refusal struct {
	Backend string `json:"backend"`
	Code    string `json:"code"`
	Reason  string `json:"reason"`
	Remedy  string `json:"remedy,omitempty"`
}

// Isolation is how the configured backend became the one that is used.
type Isolation struct {
	Configured string    `json:"configured"`
	Resolved   string    `json:"resolved,omitempty" doc:"empty: nothing runs"`
	Mode       string    `json:"mode,omitempty" doc:"of the host sandbox"`
	Degraded   bool      `json:"degraded" doc:"another backend than the configured one runs the code"`
	Weakened   bool      `json:"weakened" doc:"it does not enforce a layer that it promises"`
	Refusals   []Refusal `json:"refusals" nullable:"false" doc:"backends that were passed over, in the order met"`
	Warnings   []string  `json:"warnings" nullable:"false" doc:"what a person has to know, the gravest first"`
}

// Stamp says on every result what really ran the code.
type Stamp struct {
	Backend     string   `json:"backend"`
	Configured  string   `json:"configured"`
	Mode        string   `json:"mode,omitempty"`
	Containment string   `json:"containment" doc:"in words: contained, weakened, not sandboxed"`
	Degraded    bool     `json:"degraded"`
	Reasons     []string `json:"reasons,omitempty" doc:"why degraded"`
	Weakened    []string `json:"weakened,omitempty" doc:"one sentence per promised layer that is not enforced"`
	Opened      []string `json:"opened,omitempty" doc:"layers that a setting opened"`
	Uncontained bool     `json:"uncontained" doc:"nothing was between the code and the user's files"`
	Posture     string   `json:"posture" doc:"digest of what was observed"`
	Identity    string   `json:"identity" doc:"image digest, or interpreter path and version"`
	Guard       string   `json:"guard" doc:"verdict of the source check; none where none ran"`
	Session     string   `json:"session"`
	Approval    Approval `json:"approval" enum:"operator,credential,auto-approve" doc:"who allowed the run"`
	Line        string   `json:"line" doc:"the stamp in one line"`
}

// Approval is who allowed a run.
type Approval string

const (
	ApprovedByOperator   Approval = "operator"     // the operator's own credential asked for it
	ApprovedByCredential Approval = "credential"   // a program with an agent's credential, through HTTP: no person was asked
	ApprovedByProfile    Approval = "auto-approve" // permissions.profile lets agents run code without asking a person
)

// Status is where code would run now, and how brig is.
type Status struct {
	Version   string    `json:"version"`
	Started   time.Time `json:"started"`
	Isolation Isolation `json:"isolation"`
	Layers    []Layer   `json:"layers" nullable:"false" doc:"of the resolved backend: observed where an instance is there, otherwise a forecast"`
	Observed  bool      `json:"observed" doc:"the layers are those of a live instance"`
	// ToolsBacked says whether tools whose name promises a sandbox are offered.
	ToolsBacked bool            `json:"tools_backed" doc:"tools that promise a sandbox are offered"`
	Profile     string          `json:"profile" doc:"permissions.profile"`
	CodeExec    bool            `json:"code_exec" doc:"workspace.code_exec"`
	Sessions    int             `json:"sessions"`
	Limit       int             `json:"sessions_limit"`
	Running     int             `json:"running" doc:"runs under way"`
	Pool        json.RawMessage `json:"pool,omitempty" doc:"prepared instances; operators only"`
	// Resolution is in full what Isolation says in short, as brig status --json prints it.
	Resolution json.RawMessage `json:"resolution,omitempty" doc:"how the backend was chosen; operators only"`
	// Problems are what is wrong with this brig, such as a store that was moved aside.
	Problems []string  `json:"problems" nullable:"false"`
	Selftest *Selftest `json:"selftest,omitempty" doc:"the latest, without its report"`
}

// Backend is one way to contain code, as it is now.
type Backend struct {
	Kind     string   `json:"kind"`
	Usable   bool     `json:"usable"`
	Code     string   `json:"code,omitempty" doc:"why it is not usable"`
	Reason   string   `json:"reason,omitempty"`
	Remedy   string   `json:"remedy,omitempty"`
	Endpoint string   `json:"endpoint,omitempty" doc:"operators only"`
	Source   string   `json:"source,omitempty" doc:"why that endpoint or interpreter"`
	Version  string   `json:"version,omitempty"`
	Layers   []Layer  `json:"layers" nullable:"false"`
	Warnings []string `json:"warnings" nullable:"false"`
}

// BackendList are all that this brig knows.
type BackendList struct {
	Backends []Backend `json:"backends" nullable:"false"`
}

// SelftestRequest asks for a self-test.
type SelftestRequest struct {
	Backend string   `json:"backend,omitempty" enum:"docker,host" doc:"empty: the one that is resolved now"`
	Only    []string `json:"only,omitempty" maxItems:"200" nullable:"false" doc:"ids of probes or layers; empty: all"`
}

// Selftest is one self-test, as it stands or as it ended.
type Selftest struct {
	ID       string           `json:"id"`
	Backend  string           `json:"backend"`
	State    string           `json:"state" enum:"running,ended,failed"`
	Started  time.Time        `json:"started"`
	Ended    *time.Time       `json:"ended,omitempty"`
	Holds    string           `json:"holds,omitempty" doc:"held, weaker or could-not-tell"`
	Sentence string           `json:"sentence,omitempty"`
	Problem  string           `json:"problem,omitempty" doc:"why it failed"`
	Stale    string           `json:"stale,omitempty" doc:"why it says nothing about now"`
	Progress SelftestProgress `json:"progress"`
	Report   json.RawMessage  `json:"report,omitempty" doc:"as brig selftest --json prints it"`
}

// SelftestProgress is how far it is.
type SelftestProgress struct {
	Done    int    `json:"done"`
	Total   int    `json:"total"`
	Probe   string `json:"probe,omitempty" doc:"the latest that ended"`
	Verdict string `json:"verdict,omitempty" enum:"blocked,allowed,inconclusive,unsupported"`
}

// SelftestList is one page, the latest first, without reports.
type SelftestList struct {
	Selftests []Selftest `json:"selftests" nullable:"false"`
	Next      string     `json:"next,omitempty"`
}

// AuditQuery asks for lines of the audit log, the latest first.
type AuditQuery struct {
	Page
	Kind    string // such as run, session, selftest; empty: all
	Session string // id or name; empty: all
	Run     string
	Since   time.Time
	Until   time.Time
}

// AuditLine is one line.
type AuditLine struct {
	Number uint64          `json:"number" doc:"within the whole chain, from 1"`
	Time   time.Time       `json:"time"`
	Kind   string          `json:"kind"`
	Actor  string          `json:"actor" doc:"who"`
	Data   json.RawMessage `json:"data"`
	Hash   string          `json:"hash" doc:"SHA-256 over this line and the hash before, hex"`
}

// AuditList is one page.
type AuditList struct {
	Lines []AuditLine `json:"lines" nullable:"false"`
	Next  string      `json:"next,omitempty"`
	Chain string      `json:"chain" doc:"what a check of the chain said when brig started, and since"`
	Holds bool        `json:"holds"`
}

// Setting is one key of the configuration.
type Setting struct {
	Key     string `json:"key"`
	Value   string `json:"value" doc:"in force"`
	Default string `json:"default"`
	Source  string `json:"source" doc:"default, the file and line, or the variable"`
	About   string `json:"about"`
	Allowed string `json:"allowed"`
}

// SettingList are all.
type SettingList struct {
	Settings []Setting `json:"settings" nullable:"false"`
}
