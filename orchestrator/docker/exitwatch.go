package docker

import (
	"context"
	"errors"
	"sync"

	"github.com/docker/docker/api/types/container"
)

// exitWatch asks for a container's exit status before the container starts: it
// removes itself when it ends, and afterwards nobody could tell any more.
type exitWatch struct {
	stop func() // gives up and waits for the goroutine

	done   chan struct{} // closed with the result set
	status int64
	err    error // why there is no status
	cut    bool  // because the connection ended
}

func watchExit(ctx context.Context, e *engine, id string) *exitWatch {
	waiting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w := &exitWatch{done: make(chan struct{})}
	begun := context.AfterFunc(ctx, cancel) // ctx bounds the question, not the wait
	results, failures := e.cli.ContainerWait(waiting, id, container.WaitConditionNextExit)
	begun()
	var running sync.WaitGroup
	running.Go(func() {
		defer close(w.done)
		select {
		case r := <-results:
			w.status = r.StatusCode
			if r.Error != nil {
				w.err = errors.New(printable(r.Error.Message))
			}
		case w.err = <-failures:
			w.cut = !isAnswer(w.err)
		}
	})
	w.stop = func() {
		cancel()
		running.Wait()
	}
	return w
}

// broke tells whether the connection that was waited on ended before the container was
// seen to. A nil watch never began.
func (w *exitWatch) broke() bool {
	if w == nil {
		return false
	}
	select {
	case <-w.done:
		return w.cut
	default:
		return false
	}
}
