package selftest

import "time"

// Outcome is how one attempt ended, in a session or in the control run.
type Outcome struct {
	Ran      bool          `json:"ran"`              // false: it did not get as far; Detail says why
	OK       bool          `json:"ok"`               // the attempt itself says that it succeeded
	Step     string        `json:"step,omitempty"`   // that failed
	Sign     string        `json:"sign,omitempty"`   // see Evidence
	Detail   string        `json:"detail,omitempty"` // what came back, printable, at most 512 bytes
	TimedOut bool          `json:"timed_out,omitempty"`
	Took     time.Duration `json:"took_ns"`
	// Seen is what the outside saw of this attempt: its token arrived, its canary
	// changed. It overrules what the attempt says of itself.
	Seen Sight `json:"seen"`
}

// Sight is what was seen from outside.
type Sight string

const (
	SeenYes  Sight = "yes"
	SeenNo   Sight = "no"
	SeenNone Sight = "unobservable" // nothing outside can see it: Witness Program, or no common file system
)
