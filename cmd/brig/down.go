package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"brig/orchestrator/api"
	"brig/orchestrator/config"
)

// downBound is how long brig down waits for the brig that runs.
const downBound = endBound + drainBound + closeTimeout + 5*time.Second

func (p *program) downCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "End the brig that runs, and wait until it has",
		Long: `Tell the brig that runs to end, and wait until it has. Running code is stopped;
sessions are kept for the next brig as orchestrator.keep_sessions says.

Exit status 0 if none runs any more.`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return p.down(c.Context()) },
	}
}

// down asks whatever brig runs, of this version or another.
func (p *program) down(parent context.Context) error {
	sig := watchSignals(parent)
	defer sig.close()
	paths, err := config.FindPaths(p.lookup)
	if err != nil {
		return err
	}
	runs, err := daemonRuns(paths)
	if err != nil {
		return err
	}
	if !runs && stateTaken(paths) {
		// One that starts or ends just now holds one of the two locks for a moment.
		if _, err := lockDaemon(paths); err != nil {
			return err
		}
	}
	if !runs {
		p.tui.note("no brig is running")
		return nil
	}
	ctx, cancel := context.WithTimeout(sig.ctx, downBound)
	defer cancel()
	if err := askToEnd(ctx, paths); err != nil {
		return stuck(paths, "the brig that runs cannot be asked to end: "+err.Error(), err)
	}
	for {
		switch runs, err = daemonRuns(paths); {
		case err != nil:
			return err
		case !runs:
			p.tui.note("brig has ended")
			return nil
		}
		select {
		case <-ctx.Done():
			return sig.rename(stuck(paths, "the brig that runs does not end", context.Cause(ctx)))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func askToEnd(ctx context.Context, paths config.Paths) error {
	end, err := api.Find(ctx, paths.Runtime, api.Operator)
	if err != nil {
		return err
	}
	c := api.NewClient(end)
	defer c.Close()
	err = c.Shutdown(ctx)
	if errors.Is(err, &api.Problem{Code: api.CodeShuttingDown}) {
		return nil
	}
	return err
}

// stuck names the process for a person to end.
func stuck(paths config.Paths, text string, err error) error {
	f := &failure{Code: "unreachable", Message: text, Remedy: askDoctor, Exit: exitFailed, err: err}
	if pid := boundOf(paths).PID; pid > 0 {
		f.Remedy = fmt.Sprintf("kill %d", pid)
	}
	return f
}
