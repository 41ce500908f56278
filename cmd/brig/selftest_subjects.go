package main

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"

	"brig/orchestrator"
	"brig/orchestrator/sandbox"
	"brig/selftest"
)

// trialSessions is how many sessions a self-test may have open at a time, whatever
// limits.sessions says about those of users.
const trialSessions = 32

// forTrials are the settings under which a self-test opens its sessions.
func forTrials(s settings) settings {
	s.Config.Limits.Sessions = max(s.Config.Limits.Sessions, trialSessions)
	return s
}

// subjects are what is to be tested, and what should be and is not there. which is
// a backend, allBackends, or empty for what a session would get now.
func (p *program) subjects(ctx context.Context, a *assembly, s settings, which string) ([]selftest.Subject, []absent, error) {
	switch which {
	case string(sandbox.Docker):
		return p.gather(ctx, a, s, sandbox.Docker)
	case string(sandbox.Host):
		return p.gather(ctx, a, s, sandbox.Host)
	case allBackends:
		return p.everySubject(ctx, a, s)
	}
	r, err := a.orchestrator.Resolve(ctx, "")
	if err != nil {
		return nil, nil, err
	}
	kind := r.Resolved
	if r.Err != nil {
		if kind = sandbox.Host; !refusedForWant(r) {
			return nil, nil, r.Err
		}
	}
	if r.Degraded {
		p.announceTrial(r)
	}
	return p.gather(ctx, a, s, kind)
}

// gather is the one subject of a backend.
func (p *program) gather(ctx context.Context, a *assembly, s settings, kind sandbox.Kind) ([]selftest.Subject, []absent, error) {
	subject, err := p.subject(ctx, a, kind, s.Config.BaseFor(kind))
	if err != nil {
		return nil, nil, err
	}
	return []selftest.Subject{subject}, nil, nil
}

// everySubject is each backend that is there, docker with every runtime of the engine.
func (p *program) everySubject(ctx context.Context, a *assembly, s settings) (all []selftest.Subject, missing []absent, _ error) {
	runtimes, err := a.docker.Runtimes(ctx)
	if err != nil {
		missing = append(missing, absentBecause(sandbox.Docker, "", err))
	}
	for _, name := range runtimes {
		base := s.Config.BaseFor(sandbox.Docker)
		base.Runtime = name
		subject, err := p.subject(ctx, a, sandbox.Docker, base)
		if err != nil {
			missing = append(missing, absentBecause(sandbox.Docker, name, err))
			continue
		}
		all = append(all, subject)
	}
	subject, err := p.subject(ctx, a, sandbox.Host, s.Config.BaseFor(sandbox.Host))
	if err != nil {
		return all, append(missing, absentBecause(sandbox.Host, "", err)), nil
	}
	return append(all, subject), missing, nil
}

// subject is one backend with one base, if it can be used now.
func (p *program) subject(ctx context.Context, a *assembly, kind sandbox.Kind, base sandbox.Base) (selftest.Subject, error) {
	backend := a.backend(kind)
	s := selftest.Subject{Kind: kind, Base: base}
	facts, err := backend.Probe(ctx)
	if err != nil {
		return s, err
	}
	s.Identity = identityOf(facts, base)
	if s.Forecast, err = backend.Capabilities(ctx, base); err != nil {
		return s, err
	}
	s.Variant = string(base.Mode)
	if kind == sandbox.Docker {
		if s.Variant, _, err = a.docker.Runtime(ctx, base); err != nil {
			return s, err
		}
	}
	s.Open = func(ctx context.Context, o selftest.Opening) (*orchestrator.Session, error) {
		base := o.Base
		return a.orchestrator.Open(ctx, orchestrator.SessionOptions{
			Backend: kind, Base: &base, Workspace: o.Workspace, Trial: true, Prepared: o.Warm,
			Timezone: p.timezone(), Locale: p.locale(),
		})
	}
	return s, nil
}

// selftestRoot is where decoys live while a self-test runs.
func selftestRoot(s settings) string { return filepath.Join(s.Paths.Runtime, "selftest") }

// trialOptions are what selftest.Run needs to know of this machine and its user.
func (p *program) trialOptions(ctx context.Context, a *assembly, s settings) selftest.Options {
	own := map[string]string{}
	for _, d := range directoriesOf(s.Paths) {
		own[d.name] = d.path
	}
	o := selftest.Options{
		Root: selftestRoot(s), Own: own, Environ: p.environ, Version: readBuild(),
	}
	if home, err := os.UserHomeDir(); err == nil {
		o.Home = home
	}
	// What the host sandbox found is an interpreter that works and is new enough,
	// also where the code itself runs in a container.
	facts, err := a.host.Probe(ctx)
	if err == nil {
		// The interpreter itself: what was found may be a script that looks for one.
		o.Python = cmp.Or(facts.Details["executable"], facts.Endpoint)
		return o
	}
	// Where there is no host sandbox there may be a Python all the same.
	o.NoPython = explain(err).Message
	for _, name := range []string{s.Config.Host.Python, "python3", "python"} {
		if path, err := exec.LookPath(name); name != "" && err == nil && filepath.IsAbs(path) {
			o.Python, o.NoPython = path, ""
			break
		}
	}
	return o
}
