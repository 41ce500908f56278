package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"brig/orchestrator/api"
	"brig/orchestrator/sandbox"
)

// transferTime is what a session for one run lives longer than the run may take: for
// files on their way, and so that what a killed command leaves there goes soon.
const transferTime = 10 * time.Minute

// openNotice is how long the opening of a session is waited for in silence: a first
// one may have to build an image there.
const openNotice = 3 * time.Second

// handOver runs the program in the brig that stays. It is false and no error where
// none runs, or where one runs with other settings: then the program is to run here,
// as it was asked for.
func (e *execution) handOver(s settings) (handed bool, err error) {
	ctx := e.signals.ctx
	c, err := e.p.daemon(ctx, s.Paths)
	if err != nil {
		return false, err
	}
	if c == nil {
		if e.o.session != "" {
			return false, notRunning()
		}
		return false, nil
	}
	defer c.Close()
	if e.o.session != "" {
		return true, e.inSession(ctx, c, s)
	}
	other, err := differs(ctx, c, s.Loaded, false)
	if err != nil {
		return false, err
	}
	if other != nil {
		if !e.o.json && !e.o.quiet && e.o.tier.value == "" && e.o.image == "" {
			e.p.tui.note("the brig that runs has another %s, so this run is not its; %s", other.key, e.p.readAnew(s.Paths))
		}
		return false, nil
	}
	return true, e.retried(ctx, c, s, func() error { return e.once(ctx, c) })
}

// inSession runs the program in a session of the user's.
func (e *execution) inSession(ctx context.Context, c *api.Client, settings settings) error {
	if err := checkName(e.o.session); err != nil {
		return err
	}
	if e.o.tier.value != "" || e.o.image != "" {
		return usage("brig session new --help", "--session and --tier or --image do not go together: a session has the image that it was opened with")
	}
	if err := e.p.agrees(ctx, c, settings, "or run it without --session, by itself"); err != nil {
		return err
	}
	t := &there{client: c, named: true, ask: e.request()}
	t.ask.Name, t.ask.Join = e.o.session, e.o.join
	s, err := c.Session(ctx, e.o.session)
	switch {
	case err == nil && !mine(s) && !e.o.join:
		return &failure{
			Code: "name-taken", Exit: exitFailed,
			Message: fmt.Sprintf("session %s was opened by the credential %s: it shares its variables and files with whoever joins it", e.o.session, s.Creator),
			Remedy:  "choose another name, or add --join",
		}
	case err == nil && e.o.backend.value != "" && s.Stamp.Backend != e.o.backend.value:
		return usage("leave --backend out", "session %s is in backend %s", e.o.session, s.Stamp.Backend)
	case err == nil:
		err = t.learn(s)
	case api.IsProblem(err, api.CodeNotFound):
		if err = e.opening(func() error { return t.open(ctx) }); err == nil && !e.o.json && !e.o.quiet {
			e.p.tui.note("opened session %s", escapeLine(e.o.session))
		}
	}
	if err != nil {
		return err
	}
	e.venue = t
	return e.run()
}

// mine says that the user opened the session, and no agent.
func mine(s api.Session) bool { return s.Creator == "operator" }

// once runs the program in a session of its own.
func (e *execution) once(ctx context.Context, c *api.Client) error {
	t := &there{client: c, once: e.out == nil && len(e.uploads.files) == 0, ask: e.request()}
	if !t.once {
		timeout := max(time.Duration(e.o.timeout), e.longest)
		t.ask.LifetimeSeconds = int64((timeout + transferTime) / time.Second)
	}
	if err := e.opening(func() error { return t.open(ctx) }); err != nil {
		return err
	}
	e.venue = t
	return e.run()
}

func (e *execution) request() api.SessionRequest {
	return api.SessionRequest{Backend: e.o.backend.value, Timezone: e.p.timezone(), Locale: e.p.locale()}
}

// opening says so where a session takes its time.
func (e *execution) opening(open func() error) error {
	if e.o.json || e.o.quiet {
		return open()
	}
	slow := time.AfterFunc(openNotice, func() { e.p.tui.dim("the session is being opened; a first one builds its image: brig image status") })
	defer slow.Stop()
	return open()
}

// retried tries again after a refusal that a self-test or a person's consent lifts. What
// was refused did not run.
func (e *execution) retried(ctx context.Context, c *api.Client, s settings, attempt func() error) error {
	err := attempt()
	if unverified(err) {
		var tested bool
		if tested, err = e.verifyThere(ctx, c, err); tested {
			err = attempt()
		}
	}
	if e.o.accept && unaccepted(err) {
		if err = e.consentThere(ctx, s); err != nil {
			return err
		}
		if e.consent, err = e.p.accept(s.Paths, e.o.json); err == nil {
			err = attempt()
		}
	}
	return err
}

// consentThere writes the consent down beside the brig that stays, which is not asked
// for it: it is the file of consent that counts, for every brig of this machine.
func (e *execution) consentThere(ctx context.Context, s settings) error {
	log, _, err := openAudit(ctx, s, nil)
	if err != nil {
		return err
	}
	return errors.Join(consented(ctx, log, e.p.self("run")), log.Close())
}

// verifyThere has the brig that stays test the host sandbox, unless it has: then the
// refusal stands.
func (e *execution) verifyThere(ctx context.Context, c *api.Client, refused error) (tested bool, err error) {
	latest, err := c.FindSelftest(ctx, "", api.FindOptions{})
	if err == nil && latest.Backend == string(sandbox.Host) && latest.State == "ended" && latest.Stale == "" {
		return false, refused
	}
	if !e.o.json {
		e.p.tui.note("host.sandbox is require, and no self-test that counts was seen on this machine: testing the host sandbox now, about ten seconds")
	}
	t, err := c.Selftest(ctx, api.SelftestRequest{Backend: string(sandbox.Host)})
	for err == nil && t.State == "running" {
		t, err = c.FindSelftest(ctx, t.ID, api.FindOptions{Wait: 10 * time.Second})
	}
	if err != nil {
		return false, fmt.Errorf("test the host sandbox: %w", err)
	}
	if !e.o.json {
		e.p.tui.note("self-test of the host sandbox: %s", escapeLine(t.Sentence))
	}
	return t.State == "ended", refused
}

func notRunning() error {
	return &failure{Code: "not-running", Message: "no brig is running: sessions live in one that stays", Remedy: "brig up", Exit: exitFailed}
}
