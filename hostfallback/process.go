package hostfallback

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"brig/hostfallback/confine"
)

const (
	startPatience = 20 * time.Second // beyond the supervisor's own bound for a start
	endPatience   = 5 * time.Second  // beyond its bound for a sweep
	maxEvents     = 4 << 20          // bytes that a supervisor may write
	keptStderr    = 16 << 10
)

// process is a running supervisor seen from brig, with the ends of the runner's pipes.
type process struct {
	plan    confine.Plan
	handle  *os.Process   // nil: a supervisor that keeps others as well
	kill    func() error  // ends the supervisor that does not obey
	inside  chan struct{} // instead of handle where the supervisor is a part of brig: closed when it has returned
	stdin   *os.File      // writes to the runner
	stdout  *os.File      // reads from the runner
	stderr  *os.File
	control *os.File // closing it orders the end
	status  *os.File

	words tail // what the runner said on its standard error

	first chan confine.Event // the first event, then closed
	gone  chan struct{}      // closed when the supervisor has ended and everything below is accounted for

	// Written before gone is closed.
	ended *confine.Ended // nil: the supervisor ended without a word
	left  []int          // processes that survived everything
	lost  error          // why it could not be told what survived

	closing sync.Once
}

func newProcess(plan confine.Plan) *process {
	return &process{plan: plan, first: make(chan confine.Event, 1), gone: make(chan struct{})}
}

// follow reads everything that the supervisor and the runner's standard error
// say, until both are over. It is the one goroutine that ends the process.
func (p *process) follow(runner func() int) {
	defer close(p.gone)
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		_, _ = io.Copy(&p.words, p.stderr) // what was said until it broke
	}()
	d := json.NewDecoder(io.LimitReader(p.status, maxEvents))
	defer close(p.first)
	for n := 0; ; n++ {
		var e confine.Event
		if err := d.Decode(&e); err != nil {
			break
		}
		if n == 0 {
			p.first <- e
		}
		if e.Ended != nil {
			p.ended = e.Ended
			p.left = e.Ended.Left
		}
	}
	if p.inside != nil {
		<-p.inside
	} else if p.handle != nil {
		_, _ = p.handle.Wait() // its status says less than its last event
	}
	p.order()
	if p.ended == nil {
		// It was killed. The runner sees the end of its input and ends its tree;
		// what does not obey is looked for by its mark.
		_ = p.stdin.Close()
		p.left, p.lost = rescue(p.plan.Home, p.plan.Token, runner())
	}
	_ = p.stderr.Close() // unblocks the copy, should somebody still hold the other end
	<-heard
	_ = p.status.Close()
}

// order tells the supervisor to end everything. It may be called again and again.
func (p *process) order() { p.closing.Do(func() { _ = p.control.Close() }) }

// end orders the end and waits for it; a supervisor that does not obey is killed.
func (p *process) end() error {
	p.order()
	select {
	case <-p.gone:
		return p.lost
	case <-time.After(endPatience):
	}
	if p.inside != nil {
		<-p.gone // it has bounds of its own for everything it does
		return p.lost
	}
	if err := p.kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill the supervisor: %w", err)
	}
	<-p.gone
	return p.lost
}

// hangUp closes brig's ends of the runner's pipes.
func (p *process) hangUp() error {
	return errors.Join(ignoreClosed(p.stdin.Close()), ignoreClosed(p.stdout.Close()))
}

func ignoreClosed(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - keptStderr; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.kept)
}
