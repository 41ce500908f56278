// Package sandboxtest is the conformance suite of sandbox.Backend, and an
// in-memory backend that passes it. A new backend is finished when Run passes on
// it; a case is added here once and holds for every backend from then on.
//
// # The suite
//
// A backend's test calls Run with a Factory: how to make the backend, a
// directory it may own, and how to see and kill its instances from outside of
// them. The cases stand in cases_<subject>.go. They share one instance where
// they can and take their own where they must. A case that claims that
// something is refused or gone has a control: the same thing that works, the
// process that was there.
//
// # One suite for real interpreters and a fake
//
// What a case runs is a Program, a value made of steps such as Print, Spin or
// Daemon. Source renders it to Python from steps/<act>.py. The first line of
// that source is a comment with the steps as JSON, which Python ignores; the
// in-memory backend reads the line and ignores the rest.
//
// # What the in-memory backend proves, and what it does not
//
// NewMemory runs no process, no Python and no user code. Its goroutines stand
// for processes, and its runner executes the steps by their meaning. It is real
// in what it shares with the product: the wire protocol with its credit, bounds
// and ends; the workspace and the refusal of planted files; the rules of Backend,
// Prepared and Instance. So it shows that the suite can be satisfied, that its
// cases do not depend on the accidents of one backend, and it lets the packages
// above be tested in milliseconds and under the race detector.
//
// It proves nothing about containment. Environment, descriptors and the attack
// on the control stream print what a contained program would print, by
// construction. An interrupt of a spin or a blocked read is a channel; memory is
// a number; a daemon cannot escape because there is nowhere to escape to; and
// Python's own behaviour (tracebacks, exit handlers, encodings) is imitated.
// Its posture says so: what it cannot enforce is unsupported. Nothing the
// product reports may rest on a run of this backend alone.
package sandboxtest
