package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

// cancelGrace is how long a run that its caller gave up has for its end to be told,
// before the connection is closed, which cancels it as well.
const cancelGrace = 10 * time.Second

// runPath is where a run is begun.
func runPath(session string) string {
	if session == "" {
		return path("run")
	}
	return path("sessions", session, "runs")
}

func keyed(h http.Header, o RunOptions) http.Header {
	if h == nil {
		h = http.Header{}
	}
	if o.Key != "" {
		h.Set("Idempotency-Key", o.Key)
	}
	return h
}

// Run sends the request once and reads the events from its answer, so that brig
// cancels the run when this process or its connection ends.
func (c *Client) Run(ctx context.Context, session string, r RunRequest, o RunOptions, emit func(Event) error) (Run, error) {
	if ctx.Err() != nil {
		return Run{}, ended(ctx)
	}
	// The connection outlives ctx a little: what the run wrote and how it ended
	// still arrive when it is given up.
	open, hangUp := context.WithCancelCause(context.WithoutCancel(ctx))
	defer hangUp(nil)
	running := running{client: c, hangUp: hangUp}
	defer context.AfterFunc(ctx, func() { running.giveUp(context.Cause(ctx)) })()
	answer, err := c.send(open, call{
		method: http.MethodPost, path: runPath(session), in: r,
		header: keyed(http.Header{"Accept": {eventStream + ", application/json"}}, o),
	})
	if err != nil {
		if ctx.Err() != nil {
			return Run{}, ended(ctx)
		}
		return Run{}, err
	}
	defer answer.Body.Close()
	if !isEventStream(answer) { // the first answer to a key that was used before
		var run Run
		return run, c.decode(ctx, answer, &run)
	}
	run, err := running.follow(open, answer.Body, emit)
	if err != nil && ctx.Err() != nil && run.State != RunEnded {
		err = errors.Join(ended(ctx), err)
	}
	return run, err
}

func (c *Client) Start(ctx context.Context, session string, r RunRequest, o RunOptions) (run Run, err error) {
	return run, c.do(ctx, call{
		method: http.MethodPost, path: runPath(session), in: r, header: keyed(prefer("respond-async"), o), out: &run,
	})
}

func (c *Client) FindRun(ctx context.Context, run string, o FindOptions) (found Run, err error) {
	return found, c.do(ctx, call{method: http.MethodGet, path: path("runs", run), header: waits(o.Wait), out: &found})
}

func (c *Client) Runs(ctx context.Context, session string, p Page) (l RunList, err error) {
	return l, c.do(ctx, call{method: http.MethodGet, path: path("sessions", session, "runs"), query: page(p), out: &l})
}

func (c *Client) CancelRun(ctx context.Context, run string) (ended Run, err error) {
	return ended, c.do(ctx, call{method: http.MethodPost, path: path("runs", run, "cancel"), out: &ended})
}

func (c *Client) Follow(ctx context.Context, run string, after uint64, emit func(Event) error) error {
	return c.follow(ctx, path("runs", run, "events"), after, EventEnd, emit)
}

func (c *Client) Watch(ctx context.Context, after uint64, emit func(Event) error) error {
	return c.follow(ctx, path("events"), after, EventShutdown, emit)
}

// decodeRun reads the run in an event.
func decodeRun(e Event) (run Run, err error) {
	if err := json.Unmarshal(e.Data, &run); err != nil {
		return run, NewProblem(CodeInterruptedIO, "an event of the run could not be read: "+err.Error(), "brig status")
	}
	return run, nil
}
