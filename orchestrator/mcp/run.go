package mcp

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"brig/orchestrator/api"
)

const (
	usualWait = 40 * time.Second
	// afterInterrupt is how long the code may take to let go, which brig bounds as well, and
	// afterCancel how long the end of a run is waited for when it did not.
	afterInterrupt = 4 * time.Second
	afterCancel    = 8 * time.Second
	// settle is kept of a call's time for the answer itself.
	settle = 2 * time.Second
)

type runArgs struct {
	Code    source   `json:"code"`
	Lines   []string `json:"lines"`
	Path    string   `json:"path"`
	Argv    []string `json:"argv"`
	Timeout *number  `json:"timeout_seconds"`
	Wait    *number  `json:"wait_seconds"`
	Session string   `json:"session"`
}

// request is what the arguments ask for.
func (a runArgs) request() (api.RunRequest, error) {
	given := 0
	for _, is := range []bool{a.Code.given, len(a.Lines) > 0, a.Path != ""} {
		if is {
			given++
		}
	}
	if given != 1 {
		return api.RunRequest{}, invalid("give exactly one of code, lines and path")
	}
	r := api.RunRequest{Code: a.Code.text, Path: a.Path, Argv: a.Argv}
	if len(a.Lines) > 0 {
		r.Code = join(a.Lines)
	}
	if r.Path == "" && r.Code == "" {
		return api.RunRequest{}, invalid("code is empty")
	}
	if a.Timeout != nil {
		if *a.Timeout < 1 || *a.Timeout > 31536000 {
			return api.RunRequest{}, invalid(`"timeout_seconds" has to be at least 1`)
		}
		r.TimeoutMs = int64(*a.Timeout) * 1000
	}
	return r, nil
}

func run(ctx context.Context, c *call) (*sdk.CallToolResult, error) {
	var a runArgs
	if err := c.decode(&a); err != nil {
		return nil, err
	}
	r, err := a.request()
	if err != nil {
		return nil, err
	}
	wait, err := waiting(a.Wait, usualWait)
	if err != nil {
		return nil, err
	}
	told := c.tell(ctx)
	defer told.stop()
	var begun api.Run
	err = c.in(ctx, a.Session, true, func(session string) error {
		if err := c.contained(ctx, session); err != nil {
			return err
		}
		var err error
		begun, err = c.brig.Start(ctx, session, r, api.RunOptions{})
		return err
	})
	if err != nil {
		return nil, err
	}
	return c.await(ctx, begun, wait, told)
}

// contained refuses a session that nothing contains: it was opened under other
// settings, and this tool promises a sandbox.
func (c *call) contained(ctx context.Context, session string) error {
	if c.s.memory.judged(c.peer, session) {
		return nil
	}
	s, err := c.brig.Session(ctx, session)
	if err != nil {
		return err
	}
	if s.Stamp.Uncontained {
		return api.NewProblem(api.CodeRefused, "nothing contains this session: it was opened while the sandbox was off", `use another session: leave the argument "session" out, or give a new name`)
	}
	c.s.memory.judge(c.peer, session)
	return nil
}

type handleArgs struct {
	Run  string  `json:"run"`
	Wait *number `json:"wait_seconds"`
}

func wait(ctx context.Context, c *call) (*sdk.CallToolResult, error) {
	var a handleArgs
	if err := c.decode(&a); err != nil {
		return nil, err
	}
	wait, err := waiting(a.Wait, usualWait)
	if err != nil {
		return nil, err
	}
	if a.Run == "" {
		return nil, invalid(`"run" is missing`)
	}
	told := c.tell(ctx)
	defer told.stop()
	r, err := c.brig.FindRun(ctx, a.Run, api.FindOptions{})
	if err != nil {
		return nil, err
	}
	if r.State == api.RunEnded {
		return c.ended(r), nil
	}
	c.waits = true
	return c.await(ctx, r, wait, told)
}

func cancel(ctx context.Context, c *call) (*sdk.CallToolResult, error) {
	var a struct {
		Run string `json:"run"`
	}
	if err := c.decode(&a); err != nil {
		return nil, err
	}
	if a.Run == "" {
		return nil, invalid(`"run" is missing`)
	}
	return c.cancel(ctx, a.Run)
}

// cancel ends a run and answers with what became of it. Softly first, as a person
// would: the interpreter and its variables stay where the code lets go.
func (c *call) cancel(ctx context.Context, id string) (*sdk.CallToolResult, error) {
	r, err := c.brig.FindRun(ctx, id, api.FindOptions{})
	if err == nil && r.State == api.RunRunning {
		if soft := c.brig.Interrupt(ctx, r.Session); soft == nil {
			r, err = c.brig.FindRun(ctx, id, api.FindOptions{Wait: afterInterrupt})
		}
	}
	if err == nil && r.State != api.RunEnded {
		r, err = c.brig.CancelRun(ctx, id)
	}
	if api.IsProblem(err, api.CodeNotRunning) { // it ended this moment
		r, err = c.brig.FindRun(ctx, id, api.FindOptions{})
	}
	if err == nil && r.State != api.RunEnded {
		r, err = c.brig.FindRun(ctx, id, api.FindOptions{Wait: afterCancel})
	}
	if err != nil {
		return nil, err
	}
	if r.State != api.RunEnded {
		return c.going(r, &seen{}), nil
	}
	return c.ended(r), nil
}

// await waits for the end of a run, and answers with how far it is where that takes
// longer. The client's cancellation ends a run that this call began.
func (c *call) await(ctx context.Context, r api.Run, wait time.Duration, told *teller) (*sdk.CallToolResult, error) {
	if until, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(until)-settle)
	}
	s := &seen{stdout: ends{limit: maxStdout / 2}, stderr: ends{limit: maxStderr / 2}}
	if wait > 0 {
		c.follow(ctx, r.ID, wait, s, told)
	}
	told.stop()
	if s.end != nil {
		return c.ended(*s.end), nil
	}
	late, done := context.WithTimeout(context.WithoutCancel(ctx), afterInterrupt+2*afterCancel)
	defer done()
	if ctx.Err() != nil && context.Cause(ctx) != errCallTime && !c.waits {
		// The client has turned away: what it has to know it is told with the next run.
		c.turned = true
		settled, lost := c.s.memory.remark(c.peer, r.Session), ""
		answer, err := c.cancel(late, r.ID)
		if o, ok := structuredOf(answer).(outcome); ok && o.Variables != "" && o.Variables != "kept" {
			lost = "the run that you cancelled did not let go, so the interpreter was ended: its variables are gone, the files are there"
		}
		settled(lost)
		return answer, err
	}
	now, err := c.brig.FindRun(late, r.ID, api.FindOptions{})
	if err != nil {
		return nil, err
	}
	if now.State == api.RunEnded {
		return c.ended(now), nil
	}
	return c.going(now, s), nil
}

// follow listens to a run until it has ended or for as long as wait.
func (c *call) follow(ctx context.Context, id string, wait time.Duration, s *seen, told *teller) {
	ctx, stop := context.WithTimeout(ctx, wait)
	defer stop()
	err := c.brig.Follow(ctx, id, 0, func(e api.Event) error {
		s.add(e)
		told.output(s.stdout.total + s.stderr.total)
		return nil
	})
	if s.end != nil || ctx.Err() != nil {
		return
	}
	// The stream broke, or its end told nothing that could be read: the record is asked.
	_ = err
	until, _ := ctx.Deadline()
	if r, err := c.brig.FindRun(ctx, id, api.FindOptions{Wait: time.Until(until)}); err == nil && r.State == api.RunEnded {
		s.end = &r
	}
}

// seen is what a stream of events told of a run.
type seen struct {
	stdout, stderr ends
	end            *api.Run
}

func (s *seen) add(e api.Event) {
	var chunk api.Chunk
	switch e.Kind {
	case api.EventStdout, api.EventStderr:
		if json.Unmarshal(e.Data, &chunk) != nil {
			return
		}
		text := []byte(chunk.Text)
		if len(chunk.Base64) > 0 {
			text = chunk.Base64
		}
		if e.Kind == api.EventStdout {
			s.stdout.add(text)
		} else {
			s.stderr.add(text)
		}
	case api.EventEnd:
		var r api.Run
		if json.Unmarshal(e.Data, &r) == nil && r.State == api.RunEnded {
			s.end = &r
		}
	}
}

// teller sends progress to a client that asked for it, at most once a second.
type teller struct {
	stop func()
	mu   sync.Mutex
	said string // guarded by mu
}

// tell begins to tell of progress; stop it before the answer.
func (c *call) tell(ctx context.Context) *teller {
	t := &teller{said: "preparing the sandbox"}
	token := c.req.Params.GetProgressToken()
	if token == nil {
		t.stop = func() {}
		return t
	}
	ended, gone := make(chan struct{}), make(chan struct{})
	t.stop = sync.OnceFunc(func() { close(ended); <-gone })
	go func() {
		defer close(gone)
		began := time.Now()
		every := time.NewTicker(time.Second)
		defer every.Stop()
		for {
			select {
			case <-ended:
				return
			case <-ctx.Done():
				return
			case <-every.C:
			}
			t.mu.Lock()
			said := t.said
			t.mu.Unlock()
			// A client that takes no progress gets the answer nevertheless.
			_ = c.req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
				ProgressToken: token, Progress: time.Since(began).Seconds(), Message: said,
			})
		}
	}()
	return t
}

func (t *teller) output(bytes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.said = "running, " + size(bytes) + " of output"
}
