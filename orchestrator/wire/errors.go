package wire

import (
	"errors"
	"fmt"
)

var (
	// ErrBusy is Run's answer while another run is active.
	ErrBusy = errors.New("another run is active")
	// ErrNotRunning is Interrupt's answer when that run is not current.
	ErrNotRunning = errors.New("that run is not running")
	// ErrClosed is why a connection ended that Close ended.
	ErrClosed = errors.New("the connection was closed")
	// ErrEnded is why a runner takes no further run after one with Once.
	ErrEnded = errors.New("the runner has run its one program")

	errEmitGone  = errors.New("emit did not return")
	errNoExit    = errors.New("the run did not end after a hard interrupt")
	errStalled   = errors.New("the peer does not read")
	errSpent     = errors.New("the stream has ended")
	errUnblocked = errors.New("closing the transport did not end its reads and writes")
)

// ProtocolError says what the peer did that no correct peer does. The
// connection is closed when it is seen.
type ProtocolError struct{ What string }

func (e *ProtocolError) Error() string { return "protocol violation: " + e.What }

func violation(format string, args ...any) error {
	return &ProtocolError{What: fmt.Sprintf(format, args...)}
}

// LostError says that the connection ended before the end of what was asked
// was seen. Err is io.EOF, io.ErrUnexpectedEOF, ErrClosed, a *ProtocolError or
// an error of the transport.
type LostError struct{ Err error }

func (e *LostError) Error() string { return fmt.Sprintf("the runner was lost: %v", e.Err) }
func (e *LostError) Unwrap() error { return e.Err }

// CallError is the runner's refusal of a call.
type CallError struct {
	Code    string `json:"code"`
	Message string `json:"message"` // the runner's own words: hostile text
}

func (e *CallError) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("the runner refused (%s)", e.Code)
	}
	return fmt.Sprintf("the runner refused (%s): %s", e.Code, e.Message)
}

// Codes of a CallError; a runner may send others.
const (
	CodeBusy        = "busy"
	CodeNotRunning  = "not-running"
	CodeNotFound    = "not-found"
	CodeExists      = "exists"
	CodeInvalid     = "invalid"
	CodeTooLarge    = "too-large"
	CodeDenied      = "denied"
	CodeNoSpace     = "no-space"
	CodeUnsupported = "unsupported"
	CodeFailed      = "failed"
)

// VersionError says that the runner speaks another version of the protocol.
type VersionError struct{ Ours, Theirs int }

func (e *VersionError) Error() string {
	return fmt.Sprintf("the runner speaks protocol version %d, brig speaks %d", e.Theirs, e.Ours)
}

// ResetError says that the other side aborted a stream.
type ResetError struct{ Reason string }

func (e *ResetError) Error() string { return "stream reset: " + e.Reason }
