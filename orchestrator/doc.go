// Package orchestrator turns "run this code" into a contained run with an
// honest result. It resolves which backend may be used, opens sessions on it,
// drives one run at a time through a session and decides from evidence why each
// run ended.
//
// It knows the contract of package sandbox and no backend; the backends are
// handed to New. It prints nothing, logs nothing and reads no environment: what
// a person has to know is in Resolution, Stamp and Result, and Warnings is the
// one place that words it.
package orchestrator
