package main

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"brig/orchestrator/api"
	"brig/orchestrator/config"
	"brig/orchestrator/mcp"
)

const (
	// mcpEnd bounds the end of what a client began.
	mcpEnd = 20 * time.Second
	// parentLook is how often brig looks whether its client lives. A client that died takes its
	// end of the pipe with it, unless something it started holds the pipe open.
	parentLook = 2 * time.Second
)

func (p *program) mcpCommand() *cobra.Command {
	session := ""
	c := &cobra.Command{
		Use:   "mcp",
		Short: "Serve an agent through the Model Context Protocol",
		Long: `Speak MCP on standard input and output, for an agent's client that starts brig so.
Where brig up runs, the tools work through it; where not, in this process.
It ends with the end of its input, and its session with it unless it has a name.

Agents run code only where you allow it without being asked: with the setting
permissions.profile = "auto-approve". Otherwise they see files and status alone.

  brig mcp install CLIENT      enter brig in the settings of a client`,
		Example: `  brig mcp
  brig mcp --session analysis`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownVerb(c, args[0])
			}
			if session != "" || c.Flags().Changed("session") {
				if err := checkName(session); err != nil {
					return err
				}
			}
			return p.mcp(c.Context(), session)
		},
	}
	c.SuggestionsMinimumDistance = 2
	c.Args = cobra.ArbitraryArgs
	c.Flags().StringVar(&session, "session", "", "the `NAME` of the session that calls use which name none; it stays when brig ends")
	c.AddCommand(p.mcpInstallCommand())
	return c
}

// mcp serves one client until it is gone. To be told to end is how clients end a
// server, and no failure.
func (p *program) mcp(parent context.Context, session string) error {
	sig := watchSignals(parent)
	defer sig.close()
	ctx, cancel := context.WithCancelCause(sig.ctx)
	defer cancel(nil)
	p.findRuntime()
	s, err := p.loadSettings()
	if err != nil {
		return err
	}
	tools, end, err := p.mcpTools(ctx, s, session)
	if err != nil {
		return err
	}
	if stat, err := p.stdin.Stat(); err == nil && stat.Mode()&os.ModeCharDevice != 0 && p.tui.stderr.terminal {
		p.tui.note("waiting for an MCP client on standard input; to enter brig in one's settings: brig mcp install")
	}
	go watchParent(ctx, cancel)
	err = tools.Serve(ctx, p.stdin, p.tui.stdout)
	if ctx.Err() != nil {
		err = nil
	}
	late, done := context.WithTimeout(context.WithoutCancel(ctx), mcpEnd)
	defer done()
	return errors.Join(err, tools.Close(late), end(late))
}

// mcpTools are the tools through the brig that stays, or, where none does, of a
// brig in this process.
func (p *program) mcpTools(ctx context.Context, s settings, session string) (tools *mcp.Server, end func(context.Context) error, err error) {
	client, err := p.daemonAs(ctx, s.Paths, api.Agent, api.ViaMCP)
	if err != nil {
		return nil, nil, err
	}
	if client != nil {
		tools, err = mcp.New(mcp.Options{Brig: client, Version: readVersion().Version, Session: session})
		return tools, func(context.Context) error { client.Close(); return nil }, err
	}
	// Sessions that stay are for a brig that stays: here they end with the client, unless
	// the user named one.
	if session == "" {
		s.Config.Orchestrator.KeepSessions = false
	}
	d := &daemon{p: p, alone: session == "", toolSession: session, stop: make(chan struct{}, 1), log: &journal{
		Logger: zerolog.New(p.tui.stderr.w).Level(zerolog.WarnLevel).With().Timestamp().Logger(),
		file:   &rotating{},
	}}
	d.settings.Store(&s)
	if err := d.build(ctx); err != nil {
		return nil, nil, errors.Join(err, d.close(context.WithoutCancel(ctx)))
	}
	return d.tools, d.close, nil
}

// findRuntime looks for the runtime directory where the system has it: clients pass
// on little of the environment, and a brig that stays would not be found. One that was
// started without that variable as well is found as it is.
func (p *program) findRuntime() {
	if runtime.GOOS != "linux" || p.env("XDG_RUNTIME_DIR") != "" {
		return
	}
	if paths, err := config.FindPaths(p.lookup); err == nil {
		if runs, err := daemonRuns(paths); runs || err != nil {
			return
		}
	}
	dir := "/run/user/" + strconv.Itoa(os.Geteuid())
	if info, err := os.Stat(dir); err != nil || !info.IsDir() || !ownedByMe(info) || info.Mode().Perm()&0o077 != 0 {
		return
	}
	lookup := p.lookup
	p.lookup = func(name string) (string, bool) {
		if name == "XDG_RUNTIME_DIR" {
			return dir, true
		}
		return lookup(name)
	}
}

// watchParent ends brig when the process that started it is gone.
func watchParent(ctx context.Context, cancel context.CancelCauseFunc) {
	parent := os.Getppid()
	every := time.NewTicker(parentLook)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			if os.Getppid() != parent {
				cancel(io.EOF)
				return
			}
		}
	}
}
