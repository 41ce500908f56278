// Package api is what programs say to a running brig and what it answers: the
// types of requests, results, events and problems, the interface Brig, and Client,
// which speaks it over a unix socket or loopback. The command line, the tray and
// other programs use it; the server and the MCP tools answer with its types.
//
// It is a leaf: it knows neither the orchestrator nor the server. Names of
// members carry their unit (_ms, _bytes, _seconds); times are RFC 3339 in UTC; every list is
// bounded and has a cursor; every error is a *Problem.
package api
