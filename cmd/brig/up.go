package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"brig/orchestrator/config"
)

const (
	// endBound is how long runs may take to end when brig is told to.
	endBound = 20 * time.Second
	// drainBound is how long answers that are under way may take after that.
	drainBound = 5 * time.Second
)

// upOptions are the flags of "brig up".
type upOptions struct {
	headless bool
	verbose  bool
}

func (p *program) upCommand() *cobra.Command {
	o := upOptions{}
	c := &cobra.Command{
		Use:   "up",
		Short: "Be there for agents: serve sessions on local sockets and loopback until told to end",
		Long: `Stay in the foreground and serve sessions: to agents and to yourself on two sockets
that only you can open, and on a port of this machine to whoever has a token.
Sessions of an earlier brig are taken over. Other verbs work through the brig
that runs.

SIGTERM, Ctrl-C and brig down end it: running code is stopped, sessions are kept
for the next brig as orchestrator.keep_sessions says. SIGHUP reads the settings
anew. The log is in the state directory, log/brig.log.

Exit status 0 if it was told to end, or if a brig of yours runs already; 125 if it
could not start or had to give up.`,
		Example: `  brig up
  brig up --headless`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return p.up(c.Context(), o) },
	}
	f := c.Flags()
	f.BoolVar(&o.headless, "headless", false, "no tray and no desktop; this version has neither")
	f.BoolVar(&o.verbose, "verbose", false, "log every request too")
	return c
}

func (p *program) up(ctx context.Context, o upOptions) error {
	got := make(chan os.Signal, 4)
	signal.Notify(got, os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP)
	defer signal.Stop(got)
	s, err := p.loadSettings()
	if err != nil {
		return err
	}
	if problems := checkDirectories(s.Paths); len(problems) > 0 {
		return &config.Error{Problems: problems}
	}
	lock, err := lockDaemon(s.Paths)
	var running *runningError
	if errors.As(err, &running) && running.usable {
		p.tui.note("%s", escapeLine(running.Error()))
		return nil
	}
	if err != nil {
		return err
	}
	d := &daemon{p: p, lock: lock, stop: make(chan struct{}, 1)}
	d.settings.Store(&s)
	if err := d.start(ctx, o); err != nil {
		return errors.Join(err, d.close(ctx))
	}
	d.sayReady()
	serving := make(chan error, 1)
	go func() { serving <- d.server.Serve() }()
	err = d.wait(got, serving)
	notifySupervisor(p.env("NOTIFY_SOCKET"), "STOPPING=1")
	ending, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	go hurry(got, done, cancel)
	err = errors.Join(err, d.close(ending))
	close(done)
	return err
}

// wait returns when brig has to end; the error is why, where nobody asked for it.
func (d *daemon) wait(got <-chan os.Signal, serving <-chan error) error {
	for {
		select {
		case sig := <-got:
			if sig == syscall.SIGHUP && !d.p.hungUp() {
				d.reload()
				continue
			}
			d.log.Info().Str("signal", sig.String()).Msg("told to end")
			return nil
		case <-d.stop:
			d.log.Info().Msg("asked to end")
			return nil
		case err := <-serving:
			if err == nil {
				err = errors.New("the server ended by itself")
			}
			d.log.Error().Err(err).Msg("cannot go on")
			return err
		}
	}
}

// hurry makes a second signal end brig without waiting for runs, and a third at once.
func hurry(got <-chan os.Signal, done <-chan struct{}, cancel func()) {
	for n := 0; ; {
		select {
		case <-done:
			return
		case sig := <-got:
			if sig == syscall.SIGHUP {
				continue
			}
			if cancel(); n > 0 {
				os.Exit(int(exitInterrupted))
			}
			n++
		}
	}
}

// sayReady tells who waits that brig answers: a person, a supervisor and the log.
func (d *daemon) sayReady() {
	took := time.Since(d.began)
	where := d.bound.Address
	if where == "" {
		where = "sockets only"
	}
	for _, note := range d.bound.Notes {
		d.p.tui.note("%s", escapeLine(note))
		d.log.Warn().Str("note", note).Msg("not as asked for")
	}
	d.log.Info().Str("address", d.bound.Address).Strs("sockets", d.bound.Sockets).Int("pid", os.Getpid()).
		Str("version", readVersion().Version).Dur("took", took).Msg("ready")
	d.p.tui.note("ready at %s after %d ms; sockets in %s", escapeLine(where), took.Milliseconds(), escapeLine(d.settings.Load().Paths.Runtime))
	notifySupervisor(d.p.env("NOTIFY_SOCKET"), fmt.Sprintf("READY=1\nMAINPID=%d", os.Getpid()))
}

// hungUp says that brig was started on a terminal which is gone.
func (p *program) hungUp() bool {
	return p.tui.stderr.terminal && !term.IsTerminal(int(os.Stderr.Fd()))
}
