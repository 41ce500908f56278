package orchestrator

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"brig/orchestrator/config"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

var (
	// ErrBusy is the answer when too many runs wait for one session already, or
	// when a question needs the interpreter while a run has it.
	ErrBusy = errors.New("the session is busy, try again when its runs have ended")
	// ErrClosed is returned by calls on a closed session or orchestrator.
	ErrClosed = errors.New("it is closed")
	// ErrNoInterpreter is the answer to a question about variables that are gone.
	ErrNoInterpreter = errors.New("the interpreter is gone with its variables, the next run starts a fresh one")
	// ErrTooMany is Open's answer when limits.sessions is reached.
	ErrTooMany = errors.New("too many sessions are open")
	// ErrTimeoutRange is returned for a timeout below zero or above limits.max_timeout.
	ErrTimeoutRange = errors.New("the timeout is outside of what limits.max_timeout allows")
	// ErrTooLarge is returned for a source of more than wire.MaxCode bytes.
	ErrTooLarge = errors.New("the source is too large")
)

// The rhythm of an end. A timeout is answered within answerTimeout of its
// limit whatever the runner does: softly at the limit, by force after the grace
// (200 ms unless configured), the instance closed when even that is ignored.
const (
	closeAfterHard  = 60 * time.Millisecond // after a timeout
	answerAfterHard = 90 * time.Millisecond // after a timeout
	interruptAgain  = 10 * time.Millisecond
	closeUnhurried  = 500 * time.Millisecond
	answerUnhurried = 12 * time.Second // Close of an instance may take ten
	// runnerMargin is how much later than brig the runner itself ends a run. It is
	// longer than an interrupt by force is on its way to a runner that is reached at
	// all, so that brig, who can say why, comes first.
	runnerMargin = 10 * time.Second
)

// configured is a configuration and what the orchestrator reads of it. It is
// replaced as a whole, never changed.
type configured struct {
	config config.Config
	settings
}

// settings are what the orchestrator reads of a configuration.
type settings struct {
	backend, fallback sandbox.Kind
	timeout, longest  time.Duration // of one run
	timeoutGrace      time.Duration // between soft and hard after a timeout
	interruptGrace    time.Duration // between soft and hard after an interrupt
	sessions          int
	codeExec          bool
	idle              time.Duration // after the last use of a session
	pool              config.Pool
	keep              bool // sessions outlive brig
}

// settingsOf is the only place that knows the names of the configuration. A zero
// stands for the default there.
func settingsOf(c config.Config) settings {
	d := config.Default()
	return settings{
		backend: c.Execution.Backend, fallback: c.Execution.Fallback,
		timeout: cmp.Or(c.Workspace.ExecTimeout, d.Workspace.ExecTimeout), longest: cmp.Or(c.Limits.MaxTimeout, d.Limits.MaxTimeout),
		timeoutGrace:   cmp.Or(c.Limits.TimeoutGrace, d.Limits.TimeoutGrace),
		interruptGrace: cmp.Or(c.Limits.InterruptGrace, d.Limits.InterruptGrace),
		sessions:       cmp.Or(c.Limits.Sessions, d.Limits.Sessions), codeExec: c.Workspace.CodeExec,
		idle: cmp.Or(c.Limits.Idle, d.Limits.Idle), pool: c.Pool, keep: c.Orchestrator.KeepSessions,
	}
}

// spares is how many prepared instances of a backend are kept ready.
func (s settings) spares(kind sandbox.Kind) int {
	switch kind {
	case sandbox.Docker:
		return s.pool.Docker
	case sandbox.Host:
		return s.pool.Host
	case sandbox.WASM:
		return s.pool.WASM
	case sandbox.InProcess, sandbox.Memory: // for development: nobody waits there
	}
	return 0
}

// runnerLimit is when the runner ends a run by itself, if it hears nothing of brig.
func (s settings) runnerLimit(limit time.Duration) time.Duration {
	return limit + s.timeoutGrace + runnerMargin
}

// limit is the wall clock of one request.
// A trial is the self-test's, whose attempts have bounds of their own: what others may
// ask for would otherwise leave it undecided what holds, and with it all of them.
func (s settings) limit(r RunRequest, trial bool) (time.Duration, error) {
	if n := len(r.Source); n > wire.MaxCode {
		return 0, fmt.Errorf("run %s of source, %s at most: %w", size(int64(n)), size(wire.MaxCode), ErrTooLarge)
	}
	if r.Timeout == 0 {
		return s.timeout, nil
	}
	if r.Timeout < 0 || r.Timeout > s.longest && !trial {
		return 0, fmt.Errorf("run with a timeout of %s, %s at most: %w", r.Timeout, s.longest, ErrTimeoutRange)
	}
	return r.Timeout, nil
}
