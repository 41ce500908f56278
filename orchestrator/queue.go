package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// queueLength is how many calls may wait for a session's interpreter.
const queueLength = 8

var (
	// errGivenUp says that the caller's context ended while it waited.
	errGivenUp = errors.New("the caller went away while waiting")
	// errSentAway says that the session was closed while the caller waited.
	errSentAway = fmt.Errorf("sent away while waiting: %w", ErrClosed)
)

// queue lets one caller in at a time, first come first served.
type queue struct {
	mu      sync.Mutex
	taken   bool            // guarded by mu
	closed  bool            // guarded by mu
	waiting []chan struct{} // guarded by mu; closing one hands the turn over
	done    chan struct{}   // closed by close
}

func newQueue() *queue { return &queue{done: make(chan struct{})} }

// enter waits for the caller's turn; nil means that it has it and owes a leave.
// Otherwise it is ErrBusy, ErrClosed, errGivenUp or errSentAway, and the caller is
// not in the queue any more.
// joined, where it is not nil, is called as soon as the caller cannot be refused any more.
func (q *queue) enter(ctx context.Context, joined func()) error {
	turn, err := q.join(ctx)
	if err == nil && joined != nil {
		joined()
	}
	if turn == nil || err != nil {
		return err
	}
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		err = errGivenUp
	case <-q.done:
		err = errSentAway
	}
	q.mu.Lock()
	i := slices.Index(q.waiting, turn)
	if i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
	q.mu.Unlock()
	if i < 0 {
		q.leave() // the turn came at the same moment: it goes to the next one
	}
	return err
}

// join takes a free turn at once, or gives a channel to wait on.
func (q *queue) join(ctx context.Context) (chan struct{}, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return nil, ErrClosed
	case ctx.Err() != nil:
		return nil, errGivenUp
	case !q.taken:
		q.taken = true
		return nil, nil
	case len(q.waiting) >= queueLength:
		return nil, ErrBusy
	}
	turn := make(chan struct{})
	q.waiting = append(q.waiting, turn)
	return turn, nil
}

// length is how many callers wait.
func (q *queue) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

// leave hands the turn to the first in the queue.
func (q *queue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		q.taken = false
		return
	}
	first := q.waiting[0]
	q.waiting = slices.Delete(q.waiting, 0, 1)
	close(first)
}

// close sends everybody who waits away and lets nobody in any more.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.closed = true
		close(q.done)
	}
}
