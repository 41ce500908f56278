package api

import (
	"encoding/json"
	"time"
)

// Page asks for one page of a list.
type Page struct {
	Limit  int    // entries; 0: 100, at most 1000
	Cursor string // Next of the page before; empty: the first
}

// SessionRequest asks for a session. The zero value is an unnamed one as configured.
type SessionRequest struct {
	Name     string `json:"name,omitempty" maxLength:"64" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]*$" doc:"1 to 64 characters of A-Z a-z 0-9 . _ -; a session of that name that this credential opened is returned; empty: named by its id"`
	Join     bool   `json:"join,omitempty" doc:"return a session of that name also where another credential that this one may see opened it, whose variables and files it then shares"`
	Backend  string `json:"backend,omitempty" enum:"docker,host,wasm" doc:"this backend or none; empty: the configured one with its step-down"`
	Timezone string `json:"timezone,omitempty" maxLength:"64" doc:"IANA name; empty: UTC"`
	Locale   string `json:"locale,omitempty" maxLength:"64" doc:"such as de_DE.UTF-8; empty: C.UTF-8"`
	// LifetimeSeconds ends the session so long after it was opened.
	LifetimeSeconds int64          `json:"lifetime_seconds,omitempty" minimum:"0" maximum:"31536000" doc:"seconds after which the session ends whatever it is doing; 0: it ends when it is closed or idle for too long"`
	Limits          *LimitsRequest `json:"limits,omitempty" doc:"less than configured; more is refused"`
}

// LimitsRequest asks for less than is configured. Zero: as configured.
type LimitsRequest struct {
	MemoryBytes    int64 `json:"memory_bytes,omitempty" minimum:"0" doc:"bytes, of the whole instance"`
	Processes      int   `json:"processes,omitempty" minimum:"0" doc:"processes and threads"`
	MilliCPU       int   `json:"milli_cpu,omitempty" minimum:"0" doc:"thousandths of a core"`
	WorkspaceBytes int64 `json:"workspace_bytes,omitempty" minimum:"0" doc:"bytes, of all files of the workspace"`
	FileBytes      int64 `json:"file_bytes,omitempty" minimum:"0" doc:"bytes, of one file"`
}

// Limits are those in force.
type Limits struct {
	MemoryBytes    int64 `json:"memory_bytes" doc:"bytes, of the whole instance"`
	Processes      int   `json:"processes" doc:"processes and threads"`
	MilliCPU       int   `json:"milli_cpu" doc:"thousandths of a core"`
	WorkspaceBytes int64 `json:"workspace_bytes" doc:"bytes, of all files of the workspace"`
	FileBytes      int64 `json:"file_bytes" doc:"bytes, of one file"`
	OutputBytes    int64 `json:"output_bytes" doc:"bytes that are kept of each output stream of a run"`
}

// Session is one live interpreter with its workspace.
type Session struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	State   string    `json:"state" enum:"new,starting,idle,running,interrupting,lost,replacing,closing,closed" doc:"lost: the interpreter is gone, the files are there, the next run starts a fresh one"`
	Created time.Time `json:"created"`
	Used    time.Time `json:"used" doc:"the latest use"`
	// Expires is when the lifetime is over; IdleEnds when it ends if nobody uses it.
	Expires  *time.Time `json:"expires,omitempty" doc:"when its lifetime is over"`
	IdleEnds *time.Time `json:"idle_ends,omitempty" doc:"when it ends if nobody uses it until then"`
	Run      string     `json:"run,omitempty" doc:"id of the run that has the interpreter"`
	Queued   int        `json:"queued" doc:"runs that wait for it"`
	Runs     int        `json:"runs" doc:"runs so far"`
	Limits   Limits     `json:"limits"`
	Usage    *Usage     `json:"usage,omitempty" doc:"of the instance now; not in lists"`
	Stamp    Stamp      `json:"stamp" doc:"what contains it"`
	Warnings []string   `json:"warnings" doc:"what a person has to know about the containment, the gravest first"`
	Note     string     `json:"note,omitempty" doc:"what happened to it in the past, such as a run that was cut off"`
	Creator  string     `json:"creator" doc:"the credential that opened it"`
	// Posture and Resolution are in full what Stamp and Warnings say in short, as brig
	// run --json prints them: the command line words its remedies from them.
	Posture    json.RawMessage `json:"posture,omitempty" doc:"what was observed of the containment; not in lists"`
	Resolution json.RawMessage `json:"resolution,omitempty" doc:"how the backend was chosen; not in lists"`
}

// Usage is what an instance takes now.
type Usage struct {
	MemoryBytes    int64 `json:"memory_bytes"`
	Processes      int   `json:"processes"`
	CPUMs          int64 `json:"cpu_ms" doc:"milliseconds of processor time so far"`
	WorkspaceBytes int64 `json:"workspace_bytes" doc:"bytes on the disk"`
	WorkspaceFiles int   `json:"workspace_files"`
}

// SessionList is one page.
type SessionList struct {
	Sessions []Session `json:"sessions"`
	Next     string    `json:"next,omitempty" doc:"cursor of the next page; empty: this is the last"`
}

// ResetOptions of Reset. With the zero value it waits for the runs before it.
type ResetOptions struct {
	Now bool // interrupt the run that has the interpreter
}

// Renewal keeps a session.
type Renewal struct {
	LifetimeSeconds int64 `json:"lifetime_seconds,omitempty" minimum:"0" maximum:"31536000" doc:"seconds from now after which the session ends; 0: as it was"`
}

// Variable is one name of the interpreter.
type Variable struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Shape string `json:"shape,omitempty"`
	Bytes int64  `json:"bytes,omitempty" doc:"shallow size"`
	Repr  string `json:"repr,omitempty"`
}

// VariableList are the user's names; Omitted did not fit.
type VariableList struct {
	Variables []Variable `json:"variables"`
	Omitted   int        `json:"omitted"`
}

// Token is a credential; it is told once.
type Token struct {
	Token string `json:"token" doc:"bearer token; it is not told again"`
	Scope string `json:"scope" enum:"session"`
	// Session is the one that it is for.
	Session string `json:"session"`
}

// PageLogin opens the pages in a browser.
type PageLogin struct {
	URL     string    `json:"url" doc:"to be opened once, before it expires"`
	Expires time.Time `json:"expires"`
}
