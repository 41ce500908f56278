package mcp

import sdk "github.com/modelcontextprotocol/go-sdk/mcp"

// extend and extendOptions do nothing. .ci/mcp builds a brig in which this file is
// replaced by the fixtures that the conformance suite asks for, so that the suite
// runs against everything else as it is.
func extend(*sdk.Server) {}

func extendOptions(*sdk.ServerOptions) {}
