//go:build linux || darwin

package hostfallback

import (
	"context"

	"brig/hostfallback/confine"
)

// head is a supervisor that was started before its plan is known: the program
// starts while the plan comes about. Without a plan it has done nothing for any
// instance, and ends.
type head struct {
	done    chan struct{} // closed when it has been tried to start it
	process *process      // nil when that failed, or it is somebody's
	err     error
}

func ahead(executable string) *head {
	h := &head{done: make(chan struct{})}
	go func() {
		defer close(h.done)
		p := newProcess(confine.Plan{})
		if h.err = p.start(executable, confine.VerbSupervise); h.err == nil {
			h.process = p
		}
	}()
	return h
}

// launch is as the function of that name.
func (h *head) launch(ctx context.Context, plan confine.Plan) (*process, confine.Started, error) {
	<-h.done
	if h.err != nil {
		return nil, confine.Started{}, h.err
	}
	p := h.process
	h.process, p.plan = nil, plan
	return p.launched(ctx, p.begin)
}

// drop lets a supervisor go that got no plan: the end of its pipe is the order to end.
func (h *head) drop() {
	<-h.done
	if h.process == nil {
		return
	}
	h.process.drop()
	_, _ = h.process.handle.Wait() // it says nothing that matters to anybody
}
