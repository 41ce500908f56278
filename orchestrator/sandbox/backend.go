package sandbox

import (
	"context"
	"io"

	"brig/orchestrator/wire"
)

// Backend is one way to contain a session. All methods may be called
// concurrently; ctx bounds the call, never the life of what it returns.
type Backend interface {
	// Kind is constant.
	Kind() Kind
	// Probe asks whether the backend is usable now, by doing: it never infers
	// from a file or a command that exists. It takes at most a few seconds even
	// against a peer that hangs. Not usable is an *Unavailable; any other error
	// means that it could not tell, and the resolution treats it as not usable.
	Probe(ctx context.Context) (Facts, error)
	// Capabilities tells for every layer what an instance prepared now would
	// enforce, in the order of Layers. It is a forecast for pages and for the
	// resolution; only Posture is evidence. Its errors mean what Probe's mean: what
	// base asks for and is not there is an *Unavailable with Settings.
	Capabilities(ctx context.Context, base Base) ([]Layer, error)
	// Prepare starts a contained runner, greets it and seals its posture. It then
	// waits for a session for as long as it has to. workspace is an existing
	// directory that the session will own; a pooled instance is given a fresh one,
	// which a new session adopts. On error nothing is left running.
	Prepare(ctx context.Context, base Base, workspace string) (Prepared, error)
	// Sweep removes what earlier processes of the same owner left behind, except
	// what keep approves of. It never touches another owner's instances.
	Sweep(ctx context.Context, owner string, keep func(InstanceID) bool) (removed int, err error)
	// Close frees what the backend itself holds. Instances are closed by their owner before.
	Close(ctx context.Context) error
}

// Prepared is a started instance that no session owns yet.
type Prepared interface {
	// Bind gives the instance to a session; it may be called once and costs a
	// message to the runner. ErrCold: the claim does not fit, the caller closes this
	// one and prepares another for the claim's own workspace.
	Bind(ctx context.Context, claim Claim) (Instance, error)
	// Done is closed when the instance is gone, bound or not.
	Done() <-chan struct{}
	// Close is for an instance that was never bound; after Bind it does nothing.
	Close(ctx context.Context) error
}

// Instance is one running containment with its runner. Run is called by one
// goroutine at a time; everything else may overlap it.
type Instance interface {
	ID() InstanceID
	// Posture is what was observed, sealed before user code runs; it does not change.
	Posture() Posture
	// Run executes code and passes its events to emit, in order, on one
	// goroutine. A slow emit never blocks the runner: events beyond a bounded
	// buffer are dropped and counted. An error from emit, or the end of ctx,
	// kills the run and is returned once the run has ended. An error of type
	// *Lost means that no end was seen: the instance died or its connection did.
	Run(ctx context.Context, req wire.Run, emit func(wire.Event) error) (wire.Exit, error)
	// Call does what req asks beside a run. in is read until EOF where the op takes
	// input, out receives its output; both may be nil. Errors from the runner are *wire.CallError.
	Call(ctx context.Context, req wire.Control, in io.Reader, out io.Writer) (wire.Reply, error)
	// Interrupt ends the run softly or by force. sweep also kills every process
	// started since that run began. ErrNotRunning unless that run is current; it
	// never hits another run.
	Interrupt(ctx context.Context, run wire.RunID, level wire.Level, sweep bool) error
	// Done is closed when the instance is gone, for whatever reason.
	Done() <-chan struct{}
	// Cause tells why it is gone, from evidence; zero before Done is closed.
	Cause() Ending
	// Close ends the instance and removes everything it left. It is idempotent,
	// may overlap Run (which then returns *Lost) and takes at most ten seconds or
	// until ctx ends. *LeftBehind names what could not be removed.
	Close(ctx context.Context) error
}

// Ending is why an instance ended.
type Ending struct {
	Cause  Cause
	Detail string // one sentence, lower case, for people
}
