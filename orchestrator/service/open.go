package service

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"brig/orchestrator"
	"brig/orchestrator/api"
	"brig/orchestrator/audit"
	"brig/orchestrator/sandbox"
)

const (
	// openBound is how long opening a session may take that several wait for; a first
	// one may have to build an image.
	openBound = 20 * time.Minute
	// lifetimeMost is a year, in seconds.
	lifetimeMost = 365 * 24 * 3600
)

func (v *view) OpenSession(ctx context.Context, q api.SessionRequest) (api.Session, bool, error) {
	if err := v.checkSession(q, "body"); err != nil {
		return api.Session{}, false, err
	}
	if v.c.Session != "" {
		return v.own(ctx, q.Name)
	}
	if q.Name == "" {
		x, err := v.open(ctx, &session{creator: v.c.ID, approval: v.c.Approval}, q)
		if err != nil {
			return api.Session{}, false, err
		}
		return v.s.inFull(x), true, nil
	}
	for {
		x, created, err := v.byName(ctx, q)
		if err != nil {
			return api.Session{}, false, err
		}
		if x != nil {
			return v.s.inFull(x), created, nil
		}
	}
}

// own is the one session of a credential that is for one. Of any other name it is not
// told whether there is such a session.
func (v *view) own(ctx context.Context, name string) (api.Session, bool, error) {
	if name == "" {
		return api.Session{}, false, onlyOne()
	}
	x, err := v.find(ctx, name)
	if errors.Is(err, &api.Problem{Code: api.CodeNotFound}) {
		return api.Session{}, false, onlyOne()
	}
	if err == nil {
		err = v.s.problem(x.live.Renew(ctx, 0))
	}
	if err != nil {
		return api.Session{}, false, err
	}
	return v.s.inFull(x), false, nil
}

func onlyOne() *api.Problem {
	return api.NewProblem(api.CodeForbidden, "this credential is for one session and opens no others", "")
}

// byName is the session of that name, opened if there is none. All nil: it has to
// be asked again, because the session was closing.
func (v *view) byName(ctx context.Context, q api.SessionRequest) (_ *session, created bool, err error) {
	select { // only then it is known which names there are
	case <-v.s.settled:
	case <-ctx.Done():
		return nil, false, v.s.problem(context.Cause(ctx))
	case <-v.s.life.Done():
		return nil, false, shutting()
	}
	v.s.mu.Lock()
	if v.s.closing {
		v.s.mu.Unlock()
		return nil, false, shutting()
	}
	x := v.s.sessions[q.Name]
	if x == nil {
		x = v.s.names[q.Name]
	}
	if x != nil {
		v.s.mu.Unlock()
		return v.takeExisting(ctx, x, q.Join)
	}
	o := v.s.opening[q.Name]
	first := o == nil
	if first {
		o = &opening{creator: v.c.ID, done: make(chan struct{})}
		v.s.opening[q.Name] = o
		v.s.work.Add(1)
	} else if err := v.joins("", o.creator, q.Join); err != nil {
		v.s.mu.Unlock()
		return nil, false, err
	}
	v.s.mu.Unlock()
	if first {
		go v.openShared(o, q)
	}
	select {
	case <-o.done:
		return o.session, first, o.err
	case <-ctx.Done(): // it goes on: whoever asks next finds it, or it ends idle
		return nil, false, v.s.problem(context.Cause(ctx))
	}
}

func taken() *api.Problem {
	return api.NewProblem(api.CodeNameTaken, "a session of that name exists", "choose another name")
}

// joins is nil where the caller may go on with a session that somebody opened under
// the name it asks for. What another credential opened may be there to be taken for
// the caller's own, so that it is shared only by who says so.
func (v *view) joins(session, creator string, join bool) error {
	switch {
	case !v.c.sees(session, creator):
		return taken()
	case creator == v.c.ID || join:
		return nil
	}
	p := taken()
	p.Detail += ", and the credential " + creator + " opened it: it shares its variables and files with whoever joins it"
	p.Remedy = "choose another name, or say that you want to share it: --join, in a request \"join\": true"
	return p
}

// takeExisting answers with a session that is there, as a use of it.
func (v *view) takeExisting(ctx context.Context, x *session, join bool) (*session, bool, error) {
	if err := v.joins(x.id, x.creator, join); err != nil {
		return nil, false, err
	}
	if err := x.live.Renew(ctx, 0); err == nil {
		return x, false, nil
	}
	select { // it is closing: its name is free when it is gone
	case <-x.live.Gone():
		v.s.forget(x)
		return nil, false, nil
	case <-ctx.Done():
		return nil, false, v.s.problem(context.Cause(ctx))
	}
}

// openShared opens a session for all who ask for its name.
func (v *view) openShared(o *opening, q api.SessionRequest) {
	defer v.s.work.Done()
	ctx, cancel := context.WithTimeout(v.s.life, openBound)
	defer cancel()
	o.session, o.err = v.open(ctx, &session{creator: v.c.ID, approval: v.c.Approval}, q)
	v.s.mu.Lock()
	delete(v.s.opening, q.Name)
	v.s.mu.Unlock()
	close(o.done)
}

// open opens a session and takes it into the registry. x says whose it is.
func (v *view) open(ctx context.Context, x *session, q api.SessionRequest) (*session, error) {
	if !v.s.begin() {
		return nil, shutting()
	}
	defer v.s.work.Done()
	if err := v.takeShare(); err != nil {
		v.s.tally.refused(err)
		return nil, err
	}
	defer v.returnShare() // when it is in the registry, or will not be
	started := time.Now()
	so := orchestrator.SessionOptions{
		ID: x.id, Name: q.Name, Backend: sandbox.Kind(q.Backend), Timezone: q.Timezone, Locale: q.Locale,
		Lifetime: time.Duration(q.LifetimeSeconds) * time.Second, Creator: x.creator, Passing: x.oneShot,
	}
	if l := q.Limits; l != nil {
		so.Limits = sandbox.Limits{
			Memory: l.MemoryBytes, Processes: l.Processes, MilliCPU: l.MilliCPU, Workspace: l.WorkspaceBytes, FileSize: l.FileBytes,
		}
	}
	live, err := v.s.options.Orchestrator.Open(ctx, so)
	if err != nil {
		err = v.s.problem(err)
		v.s.tally.refused(err)
		return nil, err
	}
	if x.id == "" { // of a one-shot's session others know them already
		x.id, x.name = live.ID(), live.Name()
	}
	x.live = live
	i := live.Info()
	v.s.tally.opened(i, time.Since(started))
	v.s.note(audit.KindSession, v.actor(), audit.SessionData{
		Event: "opened", Session: x.id, Name: x.name, Creator: x.creator, Where: whereOf(i.Stamp),
	})
	v.s.options.Log.Info().Str("session", x.id).Str("backend", string(i.Stamp.Backend)).Str("containment", i.Stamp.Containment).Dur("took", time.Since(started)).Msg("session opened")
	v.s.register(x)
	return x, nil
}

// oneShot is the session of one run, yet to be opened.
func (v *view) oneShot(q api.RunRequest) (*session, error) {
	if v.c.Session != "" {
		return nil, onlyOne()
	}
	if q.Session != nil {
		if q.Session.Name != "" {
			return nil, invalid("body.session.name", "a session for one run has no name")
		}
		if err := v.checkSession(*q.Session, "body.session"); err != nil {
			return nil, err
		}
	}
	id := v.s.options.Orchestrator.NewID()
	return &session{id: id, name: id, creator: v.c.ID, approval: v.c.Approval, oneShot: true}, nil
}

// openShot opens the session of one run.
func (v *view) openShot(ctx context.Context, x *session, q *api.SessionRequest) error {
	if q == nil {
		q = &api.SessionRequest{}
	}
	_, err := v.open(ctx, x, *q)
	return err
}

// closeShot ends it. The run has been answered.
func (r *run) closeShot() {
	if r.session.live == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), recordBound)
	defer cancel()
	if err := r.session.live.Close(ctx); err != nil {
		r.s.options.Log.Warn().Err(err).Str("session", r.session.id).Msg("a session left something behind")
	}
}

// has says whether a backend is one of this brig's, usable or not.
func (s *Service) has(kind sandbox.Kind) bool {
	return len(s.options.Backends) == 0 || slices.ContainsFunc(s.options.Backends, func(b sandbox.Backend) bool { return b.Kind() == kind })
}

// checkSession finds what is wrong with a request; at is where it stands.
func (v *view) checkSession(q api.SessionRequest, at string) error {
	switch {
	case q.Name != "" && (len(q.Name) > 64 || !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`).MatchString(q.Name)):
		return invalid(at+".name", "it is 1 to 64 characters of A-Z a-z 0-9 . _ - and begins with a letter or digit")
	case q.Backend != "" && q.Backend != string(sandbox.Docker) && q.Backend != string(sandbox.Host) && q.Backend != string(sandbox.WASM):
		return invalid(at+".backend", "it is docker, host or wasm")
	case q.Backend != "" && !v.s.has(sandbox.Kind(q.Backend)):
		return invalid(at+".backend", "this brig has no such backend; GET /v1/backends lists those that it has")
	case q.Timezone != "" && !regexp.MustCompile(`^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$`).MatchString(q.Timezone) || len(q.Timezone) > 64:
		return invalid(at+".timezone", "it is no IANA name of a time zone")
	case q.Locale != "" && !regexp.MustCompile(`^[A-Za-z0-9_]+(\.[A-Za-z0-9-]+)?(@[A-Za-z0-9]+)?$`).MatchString(q.Locale) || len(q.Locale) > 64:
		return invalid(at+".locale", "it is no name of a locale, such as de_DE.UTF-8")
	}
	if q.LifetimeSeconds < 0 || q.LifetimeSeconds > lifetimeMost {
		return invalid(at+".lifetime_seconds", fmt.Sprintf("it is 0 to %d", lifetimeMost))
	}
	return v.checkLimits(q.Limits, at+".limits")
}

func checkLifetime(seconds int64) error {
	if seconds < 0 || seconds > lifetimeMost {
		return invalid("body.lifetime_seconds", fmt.Sprintf("it is 0 to %d", lifetimeMost))
	}
	return nil
}

// checkLimits refuses more than is configured, and less than an interpreter starts with.
func (v *view) checkLimits(l *api.LimitsRequest, at string) error {
	if l == nil {
		return nil
	}
	c := v.s.options.Config().Config
	most := c.Base().Limits
	for _, one := range []struct {
		name               string
		asked, least, most int64
		unit               string
	}{
		{"memory_bytes", l.MemoryBytes, 64 << 20, most.Memory, "bytes (limits.memory)"},
		{"processes", int64(l.Processes), 16, int64(most.Processes), "processes and threads (limits.processes)"},
		{"milli_cpu", int64(l.MilliCPU), 50, int64(most.MilliCPU), "thousandths of a core (limits.cpus)"},
		{"workspace_bytes", l.WorkspaceBytes, 64 << 10, most.Workspace, "bytes (limits.workspace)"},
		{"file_bytes", l.FileBytes, 4 << 10, most.FileSize, "bytes (limits.file_size)"},
	} {
		if one.asked != 0 && (one.asked > one.most || one.asked < min(one.least, one.most)) {
			return invalid(at+"."+one.name, fmt.Sprintf("a session may have %d to %d %s", min(one.least, one.most), one.most, one.unit))
		}
	}
	return nil
}
