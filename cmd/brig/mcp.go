package main

import (
	"github.com/spf13/cobra"
)

func (p *program) mcpCommand() *cobra.Command {
	c := &cobra.Command{Use: "mcp", Short: "Serve agents through the Model Context Protocol"}
	c.AddCommand(p.mcpInstallCommand())
	return group(c)
}
