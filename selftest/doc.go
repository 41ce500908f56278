// Package selftest proves on this machine, now, what contains the code. It really
// attempts each forbidden operation inside a session that was started as every
// session is, beside a control run of the same attempt with nothing around it, and
// looks from outside at what became of brig's own decoys.
//
// A Probe is data: Catalogue lists them all. Run tries them on a Subject and returns
// a Report, which compares what was seen with what the posture says: a posture that
// says more than holds is a failure of its own. The package knows the contract and
// the orchestrator and no backend. It harms nothing: decoys, canaries and listeners
// are its own, sizes are bounded, and what a killed brig leaves is removed by the
// next one.
package selftest
