// Package sandbox is the contract between the orchestrator and every way to
// contain code: the Backend, Prepared and Instance interfaces and the inert
// values they exchange.
//
// A Backend prepares instances that fit any session; Bind gives a prepared one
// to a session. What an instance really enforces is its Posture: one Layer for
// each of the ids in Layers, read back from the machine and sealed before user
// code runs. No code builds a Posture from what was asked for.
//
// The package imports nothing of brig but wire, starts no goroutine, logs
// nothing and reads no environment. Its conformance suite is sandboxtest: a new
// backend is finished when sandboxtest.Run passes.
package sandbox
