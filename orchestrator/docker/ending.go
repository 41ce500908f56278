package docker

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/errdefs"

	"brig/orchestrator/sandbox"
)

// askTimeout bounds the questions that are asked when a stream has ended.
const askTimeout = 2 * time.Second

// killedStatus is what an engine reports for a process that SIGKILL ended. A
// program can choose the same number, so it is never the only evidence.
const killedStatus = 137

// classify finds out why the stream of a container has ended, which looks the same
// whether the container, the connection or the engine went away. It asks the
// engine; where the engine cannot be asked, nothing was seen, and that is said.
// counted says that the kernel was seen to kill at the memory limit just before.
func (x *box) classify(ctx context.Context, counted bool) sandbox.Ending {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	state, err := x.engine.cli.ContainerInspect(ctx, x.id)
	switch {
	case err == nil && state.State != nil && state.State.Running:
		if ended, ok := x.status(ctx, counted); ok { // it ended between the stream and the question
			return ended
		}
		return sandbox.Ending{Cause: sandbox.BackendLost, Detail: "the engine closed the connection to a container that still ran"}
	case err == nil || errdefs.IsNotFound(err):
		if ended, ok := x.status(ctx, counted); ok {
			return ended
		}
		if !x.engine.accepts(ctx) { // it removed the container on its own way out
			return sandbox.Ending{Cause: sandbox.BackendLost, Detail: "the docker engine at " + x.engine.endpoint + " is ending, and ended the container"}
		}
		if x.exited.broke() { // the runner follows its stream, so it ended with the connection
			return sandbox.Ending{Cause: sandbox.BackendLost, Detail: "every connection to the docker engine at " + x.engine.endpoint + " ended, and the container with them"}
		}
		return sandbox.Ending{Cause: sandbox.Killed, Detail: "the container was removed and nobody saw how it ended"}
	default:
		return sandbox.Ending{Cause: sandbox.BackendLost, Detail: "the docker engine at " + x.engine.endpoint + " went away, so no end was seen"}
	}
}

// status is what the wait that began before the start has to say.
func (x *box) status(ctx context.Context, counted bool) (sandbox.Ending, bool) {
	if x.exited == nil {
		return sandbox.Ending{}, false
	}
	select {
	case <-x.exited.done:
	case <-ctx.Done():
		return sandbox.Ending{}, false
	}
	switch {
	case x.exited.err != nil:
		return sandbox.Ending{}, false
	case x.exited.status == 0: // which is how a runner follows the end of its input; no end of a run was seen
		return sandbox.Ending{Cause: sandbox.BackendLost, Detail: "the connection to the container ended, and the runner with it"}, true
	case x.exited.status == killedStatus:
		return x.killed(ctx, counted), true
	default:
		return sandbox.Ending{Cause: sandbox.Killed, Detail: fmt.Sprintf("the runner ended with status %d", x.exited.status)}, true
	}
}

// killed tells apart who sent SIGKILL. The engine's flag of a container that met its
// memory limit is not asked: on some engines it is set when any process was killed
// at any time, on others only when the first one was.
func (x *box) killed(ctx context.Context, counted bool) sandbox.Ending {
	told := x.told.testify(ctx)
	switch {
	case told.killed && !x.engine.accepts(ctx):
		return sandbox.Ending{Cause: sandbox.BackendLost, Detail: "the docker engine at " + x.engine.endpoint + " is ending, and ended the container"}
	case told.killed:
		return sandbox.Ending{Cause: sandbox.Killed, Detail: "the container was killed from outside: the engine was asked to"}
	case counted || told.oom:
		return sandbox.Ending{Cause: sandbox.MemoryOut, Detail: "the kernel killed the runner at the memory limit"}
	default:
		return sandbox.Ending{Cause: sandbox.Killed, Detail: "the runner was killed by signal 9, and brig does not know by whom"}
	}
}

// accepts tells whether the engine takes a new connection: one that ends first
// stops doing that and then kills its containers, while it still answers on old ones.
func (e *engine) accepts(ctx context.Context) bool {
	_, _, dial, err := e.dial()
	if err != nil {
		return false
	}
	conn, err := dial(ctx)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}
