package docker

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// instance is one container with its runner, bound to a session.
type instance struct {
	id      sandbox.InstanceID
	box     *box
	peer    *wire.Peer
	posture sandbox.Posture

	patience patience
	active   atomic.Int32  // runs and calls that wait for the runner
	begun    chan struct{} // capacity 1: one of them begins
	paused   atomic.Bool   // as the engine said when it was asked last
	life     context.Context
	over     context.CancelFunc // ends life: the connection has ended

	watching sync.WaitGroup
	done     chan struct{} // closed with the ending final
	closing  sync.Once
	closed   chan struct{} // closed with closeErr set
	closeErr error

	mu     sync.Mutex
	ending sandbox.Ending // the first one counts
	gone   bool
}

func newInstance(id sandbox.InstanceID, x *box, peer *wire.Peer, posture sandbox.Posture) *instance {
	i := &instance{
		id: id, box: x, peer: peer, posture: posture, patience: x.patience,
		begun: make(chan struct{}, 1), done: make(chan struct{}), closed: make(chan struct{}),
	}
	i.life, i.over = context.WithCancel(context.Background())
	i.box.meter.lives()
	i.watching.Go(i.watch)
	i.watching.Go(i.beat)
	if disk := x.disk; disk != nil {
		i.watching.Go(func() { i.guardDisk(disk) })
	}
	return i
}

// watch waits for the end of the stream and finds out why it ended.
func (i *instance) watch() {
	<-i.peer.Done()
	killed := i.box.meter.killedSince() // at once: the counters go with the container
	i.over()
	if !i.ended() {
		i.end(i.box.classify(context.Background(), killed))
	}
	i.mu.Lock()
	i.gone = true
	i.mu.Unlock()
	close(i.done)
}

func (i *instance) end(e sandbox.Ending) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ending == (sandbox.Ending{}) {
		i.ending = e
	}
}

func (i *instance) ended() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.ending != sandbox.Ending{}
}

func (i *instance) ID() sandbox.InstanceID { return i.id }

func (i *instance) Posture() sandbox.Posture {
	p := i.posture
	p.Layers, p.Promised, p.Notes = slices.Clone(p.Layers), slices.Clone(p.Promised), slices.Clone(p.Notes)
	return p
}

func (i *instance) Done() <-chan struct{} { return i.done }

func (i *instance) Cause() sandbox.Ending {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.gone {
		return sandbox.Ending{}
	}
	return i.ending
}

func (i *instance) Run(ctx context.Context, req wire.Run, emit func(wire.Event) error) (wire.Exit, error) {
	defer i.begin()()
	exit, err := i.peer.Run(ctx, req, emit)
	return exit, i.translate(err)
}

func (i *instance) Call(ctx context.Context, req wire.Control, in io.Reader, out io.Writer) (wire.Reply, error) {
	defer i.begin()()
	reply, err := i.peer.Call(ctx, req, in, out)
	return reply, i.translate(err)
}

func (i *instance) Interrupt(ctx context.Context, run wire.RunID, level wire.Level, sweep bool) error {
	defer i.begin()()
	return i.translate(i.peer.Interrupt(ctx, run, level, sweep))
}

// begin says that somebody waits for the runner, until the end is called.
func (i *instance) begin() (end func()) {
	if i.active.Add(1) == 1 {
		i.box.meter.lives() // what was killed before is not why the runner may end now
	}
	select {
	case i.begun <- struct{}{}:
	default:
	}
	return func() { i.active.Add(-1) }
}

// Counters reads the container's control groups from outside.
func (i *instance) Counters() (sandbox.Counters, bool) {
	if i.box.meter == nil {
		return sandbox.Counters{}, false
	}
	now, _ := i.box.meter.read() // without the group it is what was read last
	return now, true
}

// translate turns the wire's errors into the contract's.
func (i *instance) translate(err error) error {
	return sandbox.FromWire(err, func() sandbox.Ending {
		<-i.done // soon: the questions about the end are bounded
		return i.Cause()
	})
}

// closeTimeout bounds what Close does, whatever ctx says.
const closeTimeout = 9 * time.Second

// Close ends the runner by ending its input, and then removes the container
// whether it has ended or not. When ctx ends first, that goes on in the background
// for at most closeTimeout.
func (i *instance) Close(ctx context.Context) error {
	i.closing.Do(func() {
		detail := "closed by brig"
		if i.paused.Load() || i.box.told.isPaused() {
			detail = "closed by brig while the container was paused"
		}
		i.end(sandbox.Ending{Cause: sandbox.Cancelled, Detail: detail})
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		go func() { // waited for by everyone who waits for closed
			defer close(i.closed)
			defer cancel()
			err := i.peer.Close()
			i.closeErr = errors.Join(err, i.box.undo(bounded))
			i.watching.Wait()
		}()
	})
	select {
	case <-i.closed:
		return i.closeErr
	case <-ctx.Done():
		return &sandbox.LeftBehind{What: []string{"container " + i.box.name}, Err: context.Cause(ctx)}
	}
}
