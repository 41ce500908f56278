package main

import (
	"github.com/spf13/cobra"
)

func shells() []string { return []string{"bash", "zsh", "fish", "powershell"} }

func completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print a completion script for bash, zsh, fish or powershell",
		Long: `Print a completion script for a shell. To load it:

  bash        source <(brig completion bash)
  zsh         brig completion zsh > "${fpath[1]}/_brig"
  fish        brig completion fish | source
  powershell  brig completion powershell | Out-String | Invoke-Expression`,
		ValidArgs: shells(),
		Args: func(_ *cobra.Command, args []string) error {
			switch len(args) {
			case 0:
				return usage("brig completion bash", "name a shell: bash, zsh, fish or powershell")
			case 1:
				return nil
			default:
				return usage("brig completion "+args[0], "unexpected argument %q: name one shell", args[1])
			}
		},
		RunE: func(c *cobra.Command, args []string) error {
			root, out := c.Root(), c.OutOrStdout()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(out, true)
			case "zsh":
				return root.GenZshCompletion(out)
			case "fish":
				return root.GenFishCompletion(out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(out)
			}
			hint := "brig completion --help"
			if near := nearest(args[0], shells()); near != "" {
				hint = "did you mean: brig completion " + near
			}
			return usage(hint, "no completion for shell %q", args[0])
		},
	}
}
