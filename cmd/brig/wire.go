package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"brig/hostfallback"
	"brig/images"
	"brig/orchestrator"
	"brig/orchestrator/audit"
	"brig/orchestrator/config"
	"brig/orchestrator/docker"
	"brig/orchestrator/owner"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/store"
)

// This file is where everything is built and put together: settings and paths,
// the owner of what brig makes, the backends, the orchestrator. Nothing is
// looked up in the environment below it, and making the parts starts nothing:
// the engine's client speaks for the first time when it is asked something.

// closeTimeout bounds how long brig waits for its own end.
const closeTimeout = 15 * time.Second

// settings are the configuration, where each value came from, and brig's directories.
type settings struct {
	config.Loaded
	Paths config.Paths
}

func (p *program) loadSettings() (settings, error) {
	paths, err := config.FindPaths(p.lookup)
	if err != nil {
		return settings{}, err
	}
	loaded, err := config.LoadEnviron(p.environ, "")
	if err != nil {
		return settings{Paths: paths}, err
	}
	return settings{Loaded: loaded, Paths: paths}, nil
}

// settingsFile is where the settings are read from, whether or not they are right.
func (p *program) settingsFile(paths config.Paths) string {
	return cmp.Or(p.env("BRIG_CONFIG"), filepath.Join(paths.Config, "config.toml"))
}

// assembly is a whole brig.
type assembly struct {
	owner        *owner.Owner
	docker       *docker.Backend
	host         *hostfallback.Backend
	orchestrator *orchestrator.Orchestrator
	build        *buildNotice // nil when a build is not to be shown
	store        *store.Store // of a brig that stays
	stored       store.Report // what opening it met
	audit        *audit.Log   // where code is run
	audited      audit.Report // what opening it met
}

// assembleOptions say what the verb is about to do.
type assembleOptions struct {
	silent bool    // no drawing of a build
	daemon *daemon // which it is for: a brig that stays; nil: one verb
}

// assemble builds the parts. Whatever fails, nothing stays open.
func (p *program) assemble(s settings, o assembleOptions) (a *assembly, err error) {
	if problems := checkDirectories(s.Paths); len(problems) > 0 {
		return nil, &config.Error{Problems: problems}
	}
	a = &assembly{}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.close(context.Background()))
		}
	}()
	if a.owner, err = owner.Open(s.Paths.State); err != nil {
		return a, err
	}
	var progress func(images.Progress)
	if !o.silent {
		a.build = &buildNotice{p: p, own: s.Config.Docker.Image != ""}
		progress = a.build.show
	}
	if o.daemon != nil {
		progress = o.daemon.building
	}
	engine, host := p.engineOptions(s, a.owner, progress), hostfallback.Options{
		Python: s.Config.Host.Python, Env: p.lookup, Cache: s.Paths.Cache, Runtime: s.Paths.Runtime,
		Owner: a.owner.ID(), Protected: []string{s.Paths.Config, s.Paths.State, s.Paths.Data, s.Paths.Cache, s.Paths.Runtime},
	}
	if err = p.sabotage(&engine, &host); err != nil {
		return a, err
	}
	if a.docker, err = docker.New(engine); err != nil {
		return a, err
	}
	if a.host, err = hostfallback.New(host); err != nil {
		return a, err
	}
	options := orchestrator.Options{
		Backends: []sandbox.Backend{a.docker, a.host}, Config: s.Config, Paths: s.Paths, Owner: a.owner,
		Acknowledged: func() bool { return orchestrator.Acknowledged(s.Paths) },
	}
	inForce := func() settings { return s }
	if d := o.daemon; d != nil {
		a.store, a.stored, err = store.Open(context.Background(), store.Options{Dir: s.Paths.State, Owner: a.owner.ID(), Process: a.owner.Token(), Retention: retentionOf(s.Config)})
		if err != nil {
			return a, err
		}
		if a.audit, a.audited, err = openAudit(context.Background(), s, a.store); err != nil {
			return a, err
		}
		options.Store, options.Warm = a.store, true
		inForce = func() settings { return *d.settings.Load() }
	}
	options.Verdicts = func() map[sandbox.LayerID]sandbox.Verdict {
		now := inForce()
		if now.Config.BaseFor(sandbox.Host).Mode != sandbox.ModeRequire {
			return nil // nothing else is held against them
		}
		return p.hostVerdicts(context.Background(), a, now)
	}
	a.orchestrator, err = orchestrator.New(options)
	return a, err
}

// engineOptions are those of the docker backend.
func (p *program) engineOptions(s settings, own *owner.Owner, progress func(images.Progress)) docker.Options {
	return docker.Options{
		Endpoint: s.Config.Docker.Endpoint, Context: s.Config.Docker.Context, Env: p.lookup,
		Owner: own.ID(), Process: own.Token(), Images: p.trust(s.Paths), Progress: progress,
	}
}

func (p *program) trust(paths config.Paths) *images.Trust {
	return images.New(images.Options{Env: p.lookup, Cache: paths.Cache, Retention: images.DefaultRetention()})
}

// buildNotice draws the build that a first run has to wait for.
type buildNotice struct {
	p       *program
	own     bool       // on top of an image of the user's
	mu      sync.Mutex // a build and a start may be waited for at the same time
	drawing *progress  // guarded by mu
}

func (n *buildNotice) show(e images.Progress) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.drawing == nil && e.Note {
		n.p.tui.note("%s", escapeLine(e.Text))
		return
	}
	if n.drawing == nil {
		if n.own {
			n.p.tui.note("building brig's runner on top of your image, once")
		} else {
			n.p.tui.note("building the image that containers run, once; this takes a few minutes")
		}
		n.drawing = newProgress(n.p.tui.stderr)
	}
	n.drawing.show(e)
}

// done ends the drawing if there was a build.
func (n *buildNotice) done(err error) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.drawing != nil {
		n.drawing.done(err)
	}
}

func (a *assembly) backend(kind sandbox.Kind) sandbox.Backend {
	switch kind {
	case sandbox.Docker:
		return a.docker
	case sandbox.Host:
		return a.host
	default:
		return nil
	}
}

// close takes the parts down in the order of their dependence. It is bounded
// and does not depend on what ended the verb.
func (a *assembly) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	var errs []error
	if a.orchestrator != nil {
		errs = append(errs, a.orchestrator.Close(ctx))
	}
	if a.host != nil {
		errs = append(errs, a.host.Close(ctx))
	}
	if a.docker != nil {
		errs = append(errs, a.docker.Close(ctx))
	}
	if a.audit != nil { // which keeps its head in the store
		errs = append(errs, a.audit.Close())
	}
	if a.store != nil {
		errs = append(errs, a.store.Close())
	}
	if a.owner != nil {
		errs = append(errs, a.owner.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close brig: %w", err)
	}
	return nil
}
