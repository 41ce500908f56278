package sandbox

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrCold is Bind's answer to a claim that needs an instance of its own.
	ErrCold = errors.New("the prepared instance does not fit this claim")
	// ErrNotRunning is Interrupt's answer when that run is not current.
	ErrNotRunning = errors.New("that run is not running")
	// ErrClosed is returned by calls on an instance that was closed.
	ErrClosed = errors.New("the instance is closed")
)

// Unavailable says that a backend cannot be used now. Its text is for people:
// lower case, no full stop.
type Unavailable struct {
	Backend Kind
	Code    string // "engine-absent", "engine-stale-socket", "python-missing"…
	Reason  string // "docker engine not reachable at unix:///var/run/docker.sock: nothing listens there"
	Remedy  string // the next command to type
	// Settings says that the settings ask for something that is not there. That is
	// a mistake to mend and never a reason to step down to another backend: what
	// was asked for may be the stronger one.
	Settings bool
	Err      error
}

func (e *Unavailable) Error() string { return e.Reason }
func (e *Unavailable) Unwrap() error { return e.Err }

// Lost says that no end of a run was seen.
type Lost struct {
	Ending Ending
	Err    error
}

func (e *Lost) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("the instance was lost (%s): %v", e.Ending.Detail, e.Err)
	}
	return fmt.Sprintf("the instance was lost (%s)", e.Ending.Detail)
}
func (e *Lost) Unwrap() error { return e.Err }

// LeftBehind names what Close could not remove.
type LeftBehind struct {
	What []string
	Err  error
}

func (e *LeftBehind) Error() string {
	return "could not remove " + strings.Join(e.What, ", ") + ": " + e.Err.Error()
}
func (e *LeftBehind) Unwrap() error { return e.Err }
