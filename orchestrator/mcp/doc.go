// Package mcp offers brig to agents that speak the Model Context Protocol: tools
// and resources over api.Brig, on standard input and output and as an HTTP
// handler that serves both the revisions with sessions (up to 2025-11-25) and the
// one without (2026-07-28).
//
// What a tool needs from brig it asks through api.Brig, so that the tools are the
// same inside of a daemon, in front of one, and in a process of their own. A tool
// whose name promises a sandbox is listed only while one can be had and only where
// code may run without asking a person; what an answer says about containment
// comes from the stamp of the run, never from the settings.
package mcp
