// Package early serves the hidden roles in which brig starts itself, before the
// rest of brig is initialised.
//
// The host sandbox re-executes brig as supervisor and as the helper that confines
// itself; both are on the path of every cold start and must not pay for the
// initialisation of the engine's client and everything else. Go initialises
// packages in the order of their dependencies and, among those that are ready, of
// their import paths: this package imports nothing but the roles, so it comes
// before all that is large. That is why it is the one package whose import has an
// effect, and it has none unless the first argument is one that no user types.
package early

import "brig/hostfallback/confine"

// A process that serves a role never gets past this line.
var _ = confine.Dispatch()
