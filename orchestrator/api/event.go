package api

import (
	"encoding/json"
	"time"
)

// EventKind is the "event" of a server-sent event.
type EventKind string

const (
	// Of one run; Data is what is named. In the stream of a one shot EventSession comes
	// first, with the session as it was opened: what contains the code is known, and can
	// be said, before it runs.
	EventStarted EventKind = "started" // Run
	EventStdout  EventKind = "stdout"  // Chunk
	EventStderr  EventKind = "stderr"  // Chunk
	EventGap     EventKind = "gap"     // Gap
	EventDisplay EventKind = "display" // Display
	EventEnd     EventKind = "end"     // Run, as FindRun returns it; the last event

	// Of a self-test.
	EventProgress EventKind = "progress" // SelftestProgress
	EventVerdict  EventKind = "verdict"  // Selftest; the last event

	// Of brig as a whole.
	EventSession    EventKind = "session"    // Session, after each change; closed is the last
	EventRun        EventKind = "run"        // Run without outputs: accepted, started, ended
	EventResolution EventKind = "resolution" // Status, when where code would run has changed
	EventSelftest   EventKind = "selftest"   // Selftest without its report: begun, ended
	EventSettings   EventKind = "settings"   // nothing: they were read anew
	EventShutdown   EventKind = "shutdown"   // nothing: brig ends

	// EventReset says that events were missed: what is shown has to be asked for anew.
	EventReset EventKind = "reset" // Reset
	// EventProblem says why a stream broke off whose answer had begun; the last event.
	EventProblem EventKind = "problem" // Problem
)

// Event is one thing that happened.
type Event struct {
	ID   uint64          `json:"id" doc:"grows by at least one within a stream; 0: of reset"`
	Kind EventKind       `json:"kind"`
	Time time.Time       `json:"time"`
	Data json.RawMessage `json:"data,omitempty" doc:"as the kind says"`
}

// Chunk is a piece of output.
type Chunk struct {
	Text   string `json:"text"`
	Base64 []byte `json:"base64,omitempty" doc:"the bytes, where text is not exactly what was written"`
	Late   bool   `json:"late,omitempty" doc:"written by something that an earlier run left behind"`
}

// Bytes are what was written.
func (c Chunk) Bytes() []byte {
	if c.Base64 != nil {
		return c.Base64
	}
	return []byte(c.Text)
}

// Gap is where output is missing.
type Gap struct {
	Stream       string `json:"stream" enum:"stdout,stderr"`
	DroppedBytes int64  `json:"dropped_bytes"`
	Slow         bool   `json:"slow,omitempty" doc:"the reader was too slow; otherwise the output bound was met"`
}

// Reset says which events are missing.
type Reset struct {
	After uint64 `json:"after" doc:"the last event before the hole"`
	Next  uint64 `json:"next" doc:"the first event that is still held"`
}
