package selftest

import (
	"context"

	"brig/orchestrator"
	"brig/orchestrator/sandbox"
)

// Subject is what is tested: one backend as the settings make it.
type Subject struct {
	Kind    sandbox.Kind
	Variant string       // what tells it from others of its kind, such as a runtime; for people
	Base    sandbox.Base // as real sessions are prepared with
	// Identity is what would run the code, in words that change when it does: the
	// engine or the interpreter with its version. It is part of Report.Policy.
	Identity string
	// Forecast is Backend.Capabilities for Base; its digest is Report.Policy.
	Forecast []sandbox.Layer
	// Open starts a session through the very machinery that users' sessions come from.
	// Whoever gets it closes it.
	Open func(ctx context.Context, o Opening) (*orchestrator.Session, error)
}

// Opening is which session is wanted.
type Opening struct {
	Base      sandbox.Base
	Workspace string // an existing directory that outlives the session; empty: one that goes with it
	Warm      bool   // prepared before it was asked for, and handed out as the pool does; Workspace is empty then
}

// Options of Run.
type Options struct {
	// Root is where decoys live while a run lasts, below brig's runtime directory. It
	// is made if it is missing; what killed runs left in it is removed first.
	Root string
	Own  map[string]string // brig's own directories by name: state, config, runtime, data, cache
	Home string            // of the user; empty: there is none
	// Python is the interpreter of the control runs. Empty: there is none, every probe is
	// inconclusive, and NoPython says why.
	Python   string
	NoPython string
	Environ  []string // of the control runs
	Version  string   // of brig
	Only     []string // ids of probes, or of layers; empty: all
	// Gentle runs one thing at a time, for a brig that has other work.
	Gentle   bool
	Progress func(Progress) // called by one goroutine at a time, must not wait; nil: nobody looks
}

// Progress is one probe that was decided, or the stage that begins.
type Progress struct {
	Done, Total int
	Stage       string  // "starting a session", "control run"…
	Result      *Result // nil: a stage begins
}
