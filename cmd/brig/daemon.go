package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"brig/images"
	"brig/orchestrator/api"
	"brig/orchestrator/config"
	"brig/orchestrator/mcp"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/server"
	"brig/orchestrator/service"
	"brig/orchestrator/store"
)

// daemon is a brig that stays: everything that "brig up" is made of.
type daemon struct {
	p        *program
	began    time.Time
	settings atomic.Pointer[settings] // in force
	lock     *daemonLocks
	log      *journal
	a        *assembly
	store    *store.Store
	service  *service.Service
	tools    *mcp.Server
	// toolSession is the session of tools that name none, in a brig for one client; empty: one
	// of their own.
	toolSession string
	// alone leaves the sessions of earlier brigs to others.
	alone  bool
	server *server.Server
	bound  server.Bound
	stop   chan struct{} // somebody asks for the end
}

// start builds all parts and listens; nothing is answered before Serve. After an
// error close takes down what there is.
func (d *daemon) start(ctx context.Context, o upOptions) (err error) {
	d.began = time.Now()
	s := d.settings.Load()
	if d.log, err = openJournal(filepath.Join(s.Paths.State, "log"), d.p.tui.stderr, o.verbose); err != nil {
		return err
	}
	d.log.Info().Str("version", readVersion().Version).Msg("starting")
	if err = d.build(ctx); err != nil {
		return err
	}
	d.server, err = server.New(server.Options{
		Service: d.service, Paths: s.Paths, Listen: s.Config.Server.Listen,
		Free:    s.Sources["server.listen"].From == config.FromDefault,
		Version: readVersion().Version, Log: d.log.Logger, Audit: d.a.audit, MCP: d.serveTools,
	})
	if err != nil {
		return err
	}
	d.bound, err = d.server.Listen()
	var taken *server.TakenError
	if errors.As(err, &taken) {
		return &failure{
			Code: "address-taken", Message: fmt.Sprintf("another program listens at %s (%s)", taken.Address, s.Sources["server.listen"].Where),
			Remedy: "set server.listen to another address, or to 127.0.0.1:0 for any free port", Exit: exitFailed, err: err,
		}
	}
	return err
}

// build makes everything but what listens.
func (d *daemon) build(ctx context.Context) (err error) {
	s := d.settings.Load()
	var problems []string
	d.a, err = d.p.assemble(*s, assembleOptions{silent: true, daemon: d})
	if err != nil {
		return err
	}
	if report := d.a.stored; report.Why != "" {
		text := fmt.Sprintf("the store was begun anew: %s", report.Why)
		if report.Aside != "" {
			text += "; the old one is " + report.Aside
		}
		problems = append(problems, text)
		d.p.tui.warn(escapeLine(text))
		d.log.Error().Str("why", report.Why).Str("aside", report.Aside).Msg("the store was begun anew")
	}
	for _, text := range d.a.audited.Problems {
		problems = append(problems, "the audit log: "+text)
		d.p.tui.warn(escapeLine("the audit log: " + text))
		d.log.Error().Str("why", text).Msg("the audit log does not hold")
	}
	d.store = d.a.store
	d.store.SetRetention(retentionOf(s.Config))
	if err = d.record(ctx, "began", strings.Join(problems, "; ")); err != nil {
		return err
	}
	d.service, err = service.New(service.Options{
		Orchestrator: d.a.orchestrator, Backends: []sandbox.Backend{d.a.docker, d.a.host}, Store: d.store, Audit: d.a.audit, Audited: d.a.audited,
		Alive:    d.a.owner.Alive,
		Config:   func() config.Loaded { return d.settings.Load().Loaded },
		Selftest: d.selftest, Verdicts: d.verdicts, Shutdown: d.ask,
		Login:    func() (api.PageLogin, error) { return d.server.Login() },
		Problems: problems, Version: readVersion().Version, Log: d.log.Logger, Alone: d.alone,
	})
	if err != nil {
		return err
	}
	agent := service.Caller{ID: "agent", Via: "mcp", Approval: api.ApprovedByProfile}
	d.tools, err = mcp.New(mcp.Options{Brig: d.service.As(agent), Version: readVersion().Version, Session: d.toolSession})
	return err
}

// serveTools is the handler of /mcp.
func (d *daemon) serveTools(peer func(*http.Request) (service.Caller, api.Brig, error)) http.Handler {
	return d.tools.Handler(func(r *http.Request) (mcp.Peer, error) {
		c, brig, err := peer(r)
		return mcp.Peer{ID: c.ID, Session: c.Session, Operator: c.Role == service.Operator, Brig: brig}, err
	})
}

// ask is a request to end; it does not wait.
func (d *daemon) ask() {
	select {
	case d.stop <- struct{}{}:
	default:
	}
}

// close takes the parts down, what depends on others first. The end of ctx makes
// it hurry.
func (d *daemon) close(ctx context.Context) error {
	var errs []error
	if d.server != nil {
		d.server.Drain()
	}
	if d.tools != nil {
		c, cancel := context.WithTimeout(ctx, drainBound)
		errs = append(errs, d.tools.Close(c))
		cancel()
	}
	if d.service != nil {
		c, cancel := context.WithTimeout(ctx, endBound)
		errs = append(errs, d.service.Close(c))
		cancel()
	}
	if d.tools != nil {
		d.tools.HangUp()
	}
	if d.server != nil {
		c, cancel := context.WithTimeout(ctx, drainBound)
		errs = append(errs, d.server.Shutdown(c))
		cancel()
	}
	if d.a != nil {
		if d.a.audit != nil {
			errs = append(errs, d.record(context.WithoutCancel(ctx), "ended", ""))
		}
		errs = append(errs, d.a.close(ctx))
	}
	errs = append(errs, d.lock.close())
	err := errors.Join(errs...)
	if d.log != nil {
		d.log.Info().AnErr("met", err).Msg("ended")
		err = errors.Join(err, d.log.close())
	}
	return err
}

// building tells the log of an image that is being built.
func (d *daemon) building(e images.Progress) {
	if e.Note {
		d.log.Info().Str("text", e.Text).Msg("image")
		return
	}
	d.log.Debug().Str("text", e.Text).Msg("image build")
}
