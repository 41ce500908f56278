package store

import (
	"time"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// State is what is known of a session's interpreter.
type State string

const (
	Idle    State = "idle"    // it has an instance that waits for a run
	Running State = "running" // a run has been handed to its instance
	Lost    State = "lost"    // it has none: Note says why, the files are there
)

// Session is one row: everything that is needed to go on with a session in
// another process.
type Session struct {
	ID        string
	Name      string         // unique among all sessions of this owner
	Want      sandbox.Kind   // the backend that was asked for; empty: the configured one
	Backend   sandbox.Kind   // of the latest instance
	Base      *sandbox.Base  // that was asked for; nil: as configured
	Limits    sandbox.Limits // lower ones that were asked for; a zero: as configured
	Workspace string         // host directory
	Home      string         // directory that goes with the session; empty: somebody else's
	Timezone  string
	Locale    string
	Created   time.Time     // to the millisecond, as all times here
	Lifetime  time.Duration // after Created it ends, whatever it is doing; zero: it does not
	Used      time.Time     // the begin or end of its latest run
	State     State
	Note      string     // one sentence, lower case
	Run       wire.RunID // the one under way, for state Running
	Process   string     // token of the process that holds it
	Kept      bool       // a later process may take it over
	Creator   string     // credential that opened it
	Runs      int        // that were begun so far
	Instance  *Instance  // the latest one; nil for state Lost, and before Bind
	Err       error      // of Sessions: what in the row could not be read; it is to be left alone then
}

// Instance is one row: what a session's instance is made of.
type Instance struct {
	ID         sandbox.InstanceID
	Session    string
	Backend    sandbox.Kind
	Handle     sandbox.Handle // empty where the instance ends with its process
	Base       sandbox.Base   // that it was prepared with; its Lease says for how long it waits
	Workspace  string         // that it was prepared with
	Posture    sandbox.Posture
	Resolution []byte // JSON, of whoever resolved it
	Created    time.Time
	// Orphaned is when somebody first noticed that its holder is dead; zero: nobody
	// has, or it was taken over.
	Orphaned time.Time
}
