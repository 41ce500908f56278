package service

import (
	"context"
	"errors"
	"time"

	"brig/orchestrator"
	"brig/orchestrator/api"
	"brig/orchestrator/audit"
	"brig/orchestrator/store"
)

const (
	// waitMost is how long FindRun and FindSelftest wait at most.
	waitMost = 45 * time.Second
	// acceptBound is how long Start waits for an early refusal before it answers that
	// the run is accepted.
	acceptBound = 2 * time.Second
	// cancelBound is how long CancelRun waits for the end that it has asked for.
	cancelBound = 15 * time.Second
)

func (v *view) Run(ctx context.Context, session string, q api.RunRequest, o api.RunOptions, emit func(api.Event) error) (api.Run, error) {
	r, earlier, err := v.accept(ctx, session, q, o, false)
	if err != nil {
		return api.Run{}, err
	}
	if earlier != nil {
		return v.repeat(ctx, *earlier, emit)
	}
	gone := context.AfterFunc(ctx, func() {
		cause := context.Cause(ctx)
		if errors.Is(cause, &api.Problem{Code: api.CodeShuttingDown}) { // nobody left: brig is going
			cause = brigEnded
		}
		r.cancel(cause)
	})
	defer gone()
	var failed error
	if emit != nil {
		// Not ended by ctx: the caller is told how the run that it has left ended.
		pass := func(e api.Event) error {
			if e.Kind == api.EventEnd && r.problem != nil {
				return nil // it never began: that is the answer, and no end
			}
			return emit(e)
		}
		if failed = r.events.follow(context.WithoutCancel(ctx), v, 0, pass); failed != nil {
			r.cancel(failed)
		}
	}
	<-r.done
	if r.problem != nil {
		return api.Run{}, r.problem
	}
	return r.now(), failed
}

// repeat answers a request whose key is known with the first answer.
func (v *view) repeat(ctx context.Context, id string, emit func(api.Event) error) (api.Run, error) {
	found, err := v.FindRun(ctx, id, api.FindOptions{})
	switch {
	case errors.Is(err, &api.Problem{Code: api.CodeNotFound}):
		return api.Run{}, forgotten()
	case err != nil:
		return api.Run{}, err
	case found.State != api.RunEnded:
		return api.Run{}, retry(api.NewProblem(api.CodeKeyInUse, "the run with this key has not ended", ""), 1)
	case emit == nil:
		return found, nil
	}
	return found, v.Follow(ctx, id, 0, emit)
}

func forgotten() *api.Problem {
	return api.NewProblem(api.CodeGone, "the run with this key is no longer kept; it is not executed again", "")
}

func (v *view) Start(ctx context.Context, session string, q api.RunRequest, o api.RunOptions) (api.Run, error) {
	r, earlier, err := v.accept(ctx, session, q, o, true)
	if err != nil {
		return api.Run{}, err
	}
	if earlier != nil {
		found, err := v.FindRun(ctx, *earlier, api.FindOptions{})
		if errors.Is(err, &api.Problem{Code: api.CodeNotFound}) {
			return api.Run{}, forgotten()
		}
		return found, err
	}
	patience := time.NewTimer(acceptBound)
	defer patience.Stop()
	select {
	case <-r.done:
		if r.problem != nil {
			return api.Run{}, r.problem
		}
	case <-r.queued:
	case <-patience.C:
	case <-ctx.Done(): // it goes on: it has been accepted
	}
	return r.now(), nil
}

func (v *view) FindRun(ctx context.Context, id string, o api.FindOptions) (api.Run, error) {
	r, recorded, err := v.findRun(ctx, id)
	if err != nil {
		return api.Run{}, err
	}
	if r == nil {
		return wholeOf(recorded), nil
	}
	if o.Wait > 0 {
		patience := time.NewTimer(min(o.Wait, waitMost))
		defer patience.Stop()
		select {
		case <-r.done:
		case <-patience.C:
		case <-ctx.Done():
			return api.Run{}, v.s.problem(context.Cause(ctx))
		}
	}
	return r.now(), nil
}

// inMemory is a run under way, or one that ended lately; nil: it is in the store alone.
func (s *Service) inMemory(id string) *run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs[id]
}

// findRun is a run that is in memory, or one that is recorded. CodeNotFound.
func (v *view) findRun(ctx context.Context, id string) (*run, store.Run, error) {
	for range 2 {
		if r := v.s.inMemory(id); r != nil {
			if !v.c.sees(r.session.id, r.session.creator) {
				return nil, store.Run{}, notFound("run")
			}
			return r, store.Run{}, nil
		}
		recorded, err := v.s.options.Store.FindRun(ctx, id)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return nil, store.Run{}, notFound("run")
		case err != nil:
			return nil, store.Run{}, v.s.unread(ctx, err)
		case !v.c.sees(recorded.Session, recorded.Creator):
			return nil, store.Run{}, notFound("run")
		case !recorded.Ended.IsZero():
			return nil, recorded, nil
		}
		// An earlier brig's, which is about to be given its end, or one that ended this moment.
		select {
		case <-v.s.settled:
		case <-ctx.Done():
			return nil, store.Run{}, v.s.problem(context.Cause(ctx))
		}
	}
	recorded, err := v.s.options.Store.FindRun(ctx, id)
	return nil, recorded, v.s.unread(ctx, err)
}

// unread is the answer when the store cannot be read. Nothing is wrong with it where
// the caller, whose ctx it is, has left.
func (s *Service) unread(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, store.ErrCursor) {
		return s.problem(err)
	}
	if ctx.Err() != nil {
		return s.problem(context.Cause(ctx))
	}
	s.tally.storeFailed()
	s.options.Log.Error().Err(err).Msg("the store could not be read")
	return retry(api.NewProblem(api.CodeStorage, "what is recorded cannot be read: "+err.Error(), "brig doctor"), 5)
}

func (v *view) Runs(ctx context.Context, session string, p api.Page) (api.RunList, error) {
	out := api.RunList{Runs: []api.Run{}}
	q := store.RunQuery{Limit: p.Limit, Cursor: p.Cursor}
	if session != "" {
		x, err := v.find(ctx, session)
		if err != nil {
			return out, err
		}
		q.Session = x.id
	} else if v.c.Session != "" {
		q.Session = v.c.Session
	} else if v.c.Role != Operator {
		q.Creator = v.c.ID
	}
	rows, next, err := v.s.options.Store.Runs(ctx, q)
	if err != nil {
		return out, v.s.unread(ctx, err)
	}
	out.Next = next
	for _, row := range rows {
		if r := v.s.inMemory(row.ID); r != nil {
			out.Runs = append(out.Runs, brief(r.now()))
		} else {
			out.Runs = append(out.Runs, brief(wholeOf(row)))
		}
	}
	return out, nil
}

func (v *view) CancelRun(ctx context.Context, id string) (api.Run, error) {
	r, _, err := v.findRun(ctx, id)
	if err != nil {
		return api.Run{}, err
	}
	ended := api.NewProblem(api.CodeNotRunning, "the run has ended", "")
	if r == nil {
		return api.Run{}, ended
	}
	select {
	case <-r.done:
		return api.Run{}, ended
	default:
	}
	v.s.note(audit.KindRun, v.actor(), audit.RunData{Event: "cancelled", Run: string(r.id), Session: r.session.id, Name: r.session.name})
	r.cancel(orchestrator.CancelCause("the " + v.c.Role.String() + " cancelled it"))
	patience := time.NewTimer(cancelBound)
	defer patience.Stop()
	select {
	case <-r.done:
	case <-patience.C:
	case <-ctx.Done():
		return api.Run{}, v.s.problem(context.Cause(ctx))
	}
	return r.now(), nil
}

// brief is a run without what may be large.
func brief(r api.Run) api.Run {
	for _, o := range []*api.Output{&r.Stdout, &r.Stderr} {
		o.Text, o.Tail, o.Base64 = "", "", nil
	}
	r.Displays = []api.Display{}
	return r
}
