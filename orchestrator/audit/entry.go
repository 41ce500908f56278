package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"
)

// Kind is what a line is about.
type Kind string

const (
	KindBrig       Kind = "brig"       // a brig began, ended, found its store damaged
	KindSession    Kind = "session"    // opened, renewed, reset, closed, adopted, lost
	KindRun        Kind = "run"        // accepted, ended
	KindResolution Kind = "resolution" // where code would run has changed
	KindConsent    Kind = "consent"    // a person accepted less containment
	KindToken      Kind = "token"      // a credential was made
	KindLogin      Kind = "login"      // a page was opened for an operator
	KindAuth       Kind = "auth"       // a credential or an origin was refused
	KindSettings   Kind = "settings"   // were read anew
	KindSelftest   Kind = "selftest"   // began, ended
	KindLog        Kind = "log"        // the log about itself
)

// Kinds are all of them.
func Kinds() []Kind {
	return []Kind{
		KindBrig, KindSession, KindRun, KindResolution, KindConsent, KindToken, KindLogin, KindAuth, KindSettings, KindSelftest, KindLog,
	}
}

// Entry is what a line is to say.
type Entry struct {
	Kind  Kind
	Actor string // who: the credential and the way in
	// Data becomes a JSON object. Its members event, session, session_name and run
	// are what Query looks for.
	Data any
}

// Line is one line of the log.
type Line struct {
	Number uint64          `json:"number"` // from 1, without gaps
	Time   time.Time       `json:"time"`
	Kind   Kind            `json:"kind"`
	Actor  string          `json:"actor"`
	Data   json.RawMessage `json:"data"`
	Prev   string          `json:"prev"` // Hash of the line before; 64 zeroes before the first
	Hash   string          `json:"hash"` // SHA-256 of the line up to this member, hex
}

// Code says which source ran. The text is there only where the settings ask for it.
type Code struct {
	SHA256 string `json:"sha256"`
	Bytes  int    `json:"bytes"`
	Text   string `json:"text,omitempty"`
}

// CodeOf describes a source; text: with the source itself.
func CodeOf(source []byte, text bool) Code {
	sum := sha256.Sum256(source)
	c := Code{SHA256: hex.EncodeToString(sum[:]), Bytes: len(source)}
	if text {
		c.Text = string(source)
	}
	return c
}

// Where says what contains or contained the code.
type Where struct {
	Backend     string   `json:"backend,omitempty"`
	Configured  string   `json:"configured,omitempty"`
	Mode        string   `json:"mode,omitempty"`
	Containment string   `json:"containment,omitempty"` // in words
	Degraded    bool     `json:"degraded"`
	Reasons     []string `json:"reasons,omitempty"`  // why degraded: every step down
	Weakened    []string `json:"weakened,omitempty"` // promised layers that are not enforced
	Opened      []string `json:"opened,omitempty"`   // layers that a setting opened
	Uncontained bool     `json:"uncontained"`
	Posture     string   `json:"posture,omitempty"`  // digest of what was observed
	Identity    string   `json:"identity,omitempty"` // image digest, or interpreter
}

// Weak tells whether a line about this is one that widens or weakens the boundary,
// so that it has to be on the disk before the act.
func (w Where) Weak() bool {
	return w.Degraded || w.Uncontained || len(w.Weakened) > 0 || len(w.Opened) > 0
}

// SessionData is the Data of KindSession.
type SessionData struct {
	Event   string `json:"event"` // opened, renewed, reset, closed, adopted, lost
	Session string `json:"session"`
	Name    string `json:"session_name,omitempty"`
	Creator string `json:"creator,omitempty"`
	Detail  string `json:"detail,omitempty"`
	Where   *Where `json:"where,omitempty"`
}

// RunData is the Data of KindRun.
type RunData struct {
	Event     string  `json:"event"` // accepted, interrupted, ended
	Run       string  `json:"run"`
	Session   string  `json:"session"`
	Name      string  `json:"session_name,omitempty"`
	Code      Code    `json:"code,omitzero"`      // in the lines accepted and ended
	Approval  string  `json:"approval,omitempty"` // who allowed it
	Request   string  `json:"request,omitempty"`  // id of the request, as in the log
	Cause     string  `json:"cause,omitempty"`
	Detail    string  `json:"detail,omitempty"`
	ElapsedMs float64 `json:"elapsed_ms,omitempty"`
	Where     *Where  `json:"where,omitempty"`
}

// ResolutionData is the Data of KindResolution.
type ResolutionData struct {
	Event    string    `json:"event"` // changed
	From     string    `json:"from,omitempty"`
	To       string    `json:"to,omitempty"` // empty: nothing runs
	Where    *Where    `json:"where,omitempty"`
	Refusals []Refusal `json:"refusals,omitempty"`
}

// Refusal is one backend that was passed over.
type Refusal struct {
	Backend string `json:"backend"`
	Code    string `json:"code"`
	Reason  string `json:"reason"`
}

// EventData is the Data of every other kind.
type EventData struct {
	Event   string `json:"event"`
	Session string `json:"session,omitempty"`
	Detail  string `json:"detail,omitempty"`
	Values  any    `json:"values,omitempty"`
}

var (
	// ErrClosed is the answer to every call after Close.
	ErrClosed = errors.New("the audit log is closed")
	// ErrCursor is the answer to a cursor that no page has named.
	ErrCursor = errors.New("the cursor is of no page of the audit log")
)
