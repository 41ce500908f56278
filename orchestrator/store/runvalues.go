package store

import (
	"errors"
	"time"
)

var (
	// ErrNotFound is the answer for a run, dataset, token or self-test that is not
	// recorded, or no longer.
	ErrNotFound = errors.New("it is not recorded")
	// ErrKeyReused is AddRun's answer when the key was used for another request.
	ErrKeyReused = errors.New("the idempotency key was used for another request")
	// ErrCursor is the answer to a cursor that no page of this list has named.
	ErrCursor = errors.New("the cursor is of no page of this list")
	// ErrTooMany is PutDataset's answer when the session has MaxDatasets.
	ErrTooMany = errors.New("the session has as many as it can")
)

const (
	// KeyLife is for how long an idempotency key is remembered.
	KeyLife = 24 * time.Hour
	// MaxOutputs bounds Run.Outputs in bytes; who records cuts before.
	MaxOutputs = 8 << 20
	// MaxPage bounds the entries of one page; DefaultPage is meant by 0.
	MaxPage, DefaultPage = 1000, 100
	// MaxDatasets bounds the datasets of one session.
	MaxDatasets = 256
	// KeptSelftests is how many of the latest self-tests are kept.
	KeptSelftests = 100
)

// Run is one execution as it is recorded. The row outlives its session.
type Run struct {
	ID      string
	Session string    // id
	Name    string    // of the session
	Creator string    // credential that opened the session: who may see that may see the run
	Caller  string    // credential that asked for the run
	Process string    // token of the process that has it in hand; AddRun sets it
	Created time.Time // when it was accepted; to the millisecond, as all times here
	Begun   time.Time // when it went to an instance, as Begin has said; zero: not yet
	Ended   time.Time // zero: not yet
	Cause   string    // why it ended
	Summary []byte    // JSON of whoever records it: the run without its outputs
	Source  []byte    // what was executed; not in lists
	Outputs []byte    // JSON of whoever records it, at most MaxOutputs; not in lists
	Number  int64     // grows with every run that is recorded, over all sessions; AddRun sets it
}

// Key makes a request safe to repeat.
type Key struct {
	Credential string
	Key        string
	Hash       [32]byte // SHA-256 of the request
}

// RunQuery asks for one page of runs, the latest first.
type RunQuery struct {
	Session string // id; empty: all
	Creator string // credential that opened the session; empty: all
	Limit   int    // 0: DefaultPage, at most MaxPage
	Cursor  string // of the page before; empty: the first
}

// Retention bounds what is kept of runs. A zero member is the default. A run that
// has not ended is never removed; what goes first is the oldest, and of closed
// sessions before open ones.
type Retention struct {
	PerSession int           // runs of one session; default 1000
	Total      int           // runs of all sessions; default 20000
	Bytes      int64         // of sources and outputs of all runs; default 512 MiB
	Age        time.Duration // after its end; default 30 days
	Closed     time.Duration // after its end where its session is closed; default 7 days
}

// Dataset is a file of a session's workspace that is registered as a table.
type Dataset struct {
	Session    string // id
	Name       string
	Path       string
	Format     string
	Table      string // sheet or table inside of the file
	Active     bool
	Registered time.Time
}

// Token is a credential for one session, by its hash: the token itself is not kept.
type Token struct {
	Session string // id
	Hash    [32]byte
	Created time.Time
}

// SelftestState is how far a self-test is.
type SelftestState string

const (
	SelftestRunning SelftestState = "running"
	SelftestEnded   SelftestState = "ended"
	SelftestFailed  SelftestState = "failed"
)

// Selftest is one self-test.
type Selftest struct {
	ID      string
	Backend string
	Process string // token of the process that runs or ran it; PutSelftest sets it
	State   SelftestState
	Started time.Time
	Ended   time.Time // zero: not yet
	Summary []byte    // JSON of whoever records it: without its report
	Report  []byte    // JSON; not in lists
}
