// Command brig runs the code that AI agents write, contained: in a hardened
// container when an engine answers, in the operating system's own sandbox when
// none does, and it says which and why.
//
// One file per verb; main.go and root.go hold what all share, wire.go builds the
// parts and is the only place that knows them all. Environment variables are
// read here and nowhere below. The package contains nothing itself: it asks the
// orchestrator and reports what came back.
package main

import (
	"os"

	// First of all: a process that brig starts only to be confined is served by
	// the initialisation of this package and never gets to those of the engine's
	// client, the command line or anything else linked into brig.
	_ "brig/cmd/brig/early"
)

func main() {
	os.Exit(newProgram().main(os.Args[1:]))
}
