// Package sandboxtest is the conformance suite of sandbox.Backend and an
// in-memory backend that passes it. A new backend is finished when Run passes on
// it; a case is added here once and holds for every backend from then on.
package sandboxtest
