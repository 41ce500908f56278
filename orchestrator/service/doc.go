// Package service is what a living brig does for those who ask: it keeps the
// registry of sessions and runs, says who may see and do what, records before it
// answers, and tells everybody who listens. It implements api.Brig once per
// credential; the HTTP server and the MCP tools are other ways to ask the same.
//
// It knows the orchestrator and no backend, and never listens on anything.
package service
