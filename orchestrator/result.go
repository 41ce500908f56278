package orchestrator

import (
	"time"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// RunRequest asks a session for one execution.
type RunRequest struct {
	ID       wire.RunID // used once in the world; empty: Run makes one
	Source   []byte     // at most wire.MaxCode, handed to the interpreter as it is
	Filename string     // what tracebacks show; empty means <cell N>
	Argv     []string
	// Once makes the run a whole program; the interpreter ends with it and the
	// next run of the session starts in a fresh instance.
	Once bool
	// Timeout is the wall clock of the run; zero means the configured one.
	Timeout time.Duration
	// Carrying is told how many of how many files have travelled between the
	// workspace and an instance that does not see it, before the run and after it;
	// 0 of 0 at the end. It is called by one goroutine at a time, beside emit, and
	// must not wait. nil: nobody looks.
	Carrying func(done, total int)
	// Accepted is called once, when the run has its place in the queue: from then on
	// there is a Result. Began is called once, when it has an instance and goes to it. Neither may wait; nil: nobody looks.
	Accepted, Began func()
	// Permit is asked once, when the run has its instance and before anything of it
	// runs; its error ends the run unbegun and comes back from Run. It must not wait,
	// nor ask the session. nil: it may run.
	Permit func(sandbox.Posture, Resolution) error
}

// Result is how a run ended. Every accepted run has one, with a Cause.
type Result struct {
	Run       wire.RunID      `json:"run"`
	Cause     sandbox.Cause   `json:"cause"`
	Detail    string          `json:"detail,omitempty"` // sentences for people, lower case, joined by "; "
	Status    int             `json:"status"`           // the program's own, for Cause exit
	Signal    int             `json:"signal,omitempty"` // for Cause killed and memory
	Exception *wire.Exception `json:"exception,omitempty"`
	// Stdout and Stderr count what brig itself saw pass: Kept went to emit,
	// Dropped is what a gap stood for. Both are Incomplete where no end was seen.
	Stdout   wire.Count    `json:"stdout"`
	Stderr   wire.Count    `json:"stderr"`
	Log      *wire.Log     `json:"log,omitempty"`
	Displays int           `json:"displays"`
	Elapsed  time.Duration `json:"elapsed_ns"` // by brig's clock, from the hand-over to the instance
	Queued   time.Duration `json:"queued_ns"`  // waiting for earlier runs of the session
	// State says what became of the variables: lost also when this run had to
	// start in a fresh instance because the earlier one was gone.
	State wire.State `json:"state"`
	// NotCarried names what could not be carried between the workspace and an
	// instance that does not see it; the same sentences stand in Detail.
	NotCarried []string `json:"not_carried,omitempty"`
	// NotBrought are those of NotCarried that are about files which the code made
	// or changed and of which the workspace has no copy, or an older one.
	NotBrought []string `json:"not_brought,omitempty"`
	// RunnerReported says that the cause rests on the runner's own word.
	RunnerReported bool  `json:"runner_reported"`
	Stamp          Stamp `json:"stamp"`
}
