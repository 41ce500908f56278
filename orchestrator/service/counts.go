package service

import (
	"time"

	"brig/orchestrator"
	"brig/orchestrator/sandbox"
)

// Counts is everything that can be measured of the service, at one moment. What is
// called a total only ever grows while the process lives.
type Counts struct {
	Started  time.Time
	Sessions map[SessionKind]int        // open now
	Opened   map[SessionKind]uint64     // total
	Closed   map[string]uint64          // total, by reason: asked, idle, lifetime, kept
	Refused  map[string]uint64          // total of sessions and runs that could not start, by problem code
	Running  int                        // runs that have an interpreter
	Queued   int                        // runs that wait
	Runs     map[RunKind]uint64         // total of runs that ended
	Open     map[sandbox.Kind]Histogram // seconds from the request to an open session
	Elapsed  map[sandbox.Kind]Histogram // seconds that runs took
	Waited   Histogram                  // seconds that runs waited for earlier ones
	Pool     orchestrator.PoolStatus
	Reaped   map[sandbox.Kind]uint64 // total of orphaned instances that were removed
	Adopted  uint64                  // sessions taken over from an earlier brig
	Resolved string                  // backend that code would run on now; empty: none
	Degraded bool
	Weakened bool
	// Streams are followers of events now; Missed are events that slow ones did not get.
	Streams int
	Missed  uint64
	// Failures of what has to be on the disk before an answer: audit and store.
	AuditFailures, StoreFailures uint64
}

// SessionKind is what sessions are counted by.
type SessionKind struct {
	Backend            sandbox.Kind
	Degraded, Weakened bool
}

// RunKind is what runs are counted by.
type RunKind struct {
	Backend sandbox.Kind
	Cause   sandbox.Cause
}

// Histogram is a distribution of seconds. Counts[i] are the values of at most
// Bounds[i], those of the smaller bounds included.
type Histogram struct {
	Bounds []float64
	Counts []uint64
	Count  uint64
	Sum    float64
}
