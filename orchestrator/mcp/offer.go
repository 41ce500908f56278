package mcp

import (
	"context"
	"errors"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"brig/orchestrator/api"
)

// offer keeps the list of tools true: what promises a sandbox is on it only while
// one can be had, and code may run without a person being asked.
type offer struct {
	s        *Server
	watching sync.Once

	mu     sync.Mutex // guards what follows; held while brig is asked, so that one look serves all who wait
	looked time.Time
	why    error // why code does not run now; nil: it does
	listed bool  // the run tool is on the list
	wait   bool  // the tools for handles are: once there was a run they stay, for what is under way
}

func newOffer(s *Server) *offer {
	o := &offer{s: s, why: errors.New("not looked at yet")}
	for _, t := range s.always() {
		s.sdk.AddTool(t.Tool, t.handler)
	}
	return o
}

// refresh looks anew where the last look is older than age, changes the list, and
// returns why code does not run now. What could not be asked is not offered.
func (o *offer) refresh(ctx context.Context, age time.Duration) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if age > 0 && time.Since(o.looked) < age {
		return o.why
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	st, err := o.s.o.Brig.Status(ctx)
	if err != nil && ctx.Err() != nil {
		return err // whoever asked went away, or brig is slow: that is no news of the containment
	}
	o.looked = time.Now()
	if err == nil {
		err = unoffered(st)
	}
	o.why = err
	o.apply()
	return o.why
}

// stale makes the next look a new one.
func (o *offer) stale() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.looked = time.Time{}
}

func (o *offer) apply() {
	if want := o.why == nil; want != o.listed {
		if o.listed = want; !want {
			o.s.sdk.RemoveTools(toolRun)
			return
		}
		t := o.s.runTool()
		o.s.sdk.AddTool(t.Tool, t.handler)
	}
	if o.listed && !o.wait {
		o.wait = true
		for _, t := range o.s.handleTools() {
			o.s.sdk.AddTool(t.Tool, t.handler)
		}
	}
}

// unoffered is why code may not run through a tool that promises a sandbox.
func unoffered(st api.Status) error {
	switch {
	case !st.CodeExec:
		return api.NewProblem(api.CodeForbidden, "the user has switched off running code: workspace.code_exec is false", "do the task without running code, or ask the user to set workspace.code_exec to true")
	case st.Profile != "auto-approve":
		return api.NewProblem(api.CodeForbidden,
			"running code needs a person's approval, which cannot be asked for through MCP yet: permissions.profile is "+st.Profile,
			`ask the user to set permissions.profile to "auto-approve" if they want you to run code in the sandbox without being asked`)
	case !st.ToolsBacked:
		p := api.NewProblem(api.CodeRefused, "nothing on this machine contains code well enough now", "do not run the code by other means; tell the user, and see sandbox_status")
		for _, w := range st.Isolation.Warnings {
			p.Detail += "; " + w
		}
		p.Isolation = &st.Isolation
		return p
	}
	return nil
}

// watch follows what happens in brig, once somebody can be told of a changed list.
func (o *offer) watch() {
	o.watching.Do(func() {
		o.s.tasks.Go(func() {
			pause := time.Second
			for o.s.ctx.Err() == nil {
				began := time.Now()
				err := o.s.o.Brig.Watch(o.s.ctx, 0, func(e api.Event) error {
					switch e.Kind {
					case api.EventResolution, api.EventSettings, api.EventReset:
						_ = o.refresh(o.s.ctx, 0)
					}
					return nil
				})
				if errors.Is(err, &api.Problem{Code: api.CodeForbidden}) {
					return // not for this credential: the looks at each call remain
				}
				if time.Since(began) > time.Minute {
					pause = time.Second
				}
				o.stale()
				select {
				case <-o.s.ctx.Done():
				case <-time.After(pause):
				}
				pause = min(2*pause, 30*time.Second)
			}
		})
	})
}

// tool is one entry of the list.
type tool struct {
	*sdk.Tool
	handler sdk.ToolHandler
}
