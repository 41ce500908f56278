package docker

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/errdefs"

	"brig/orchestrator/sandbox"
)

// patience is how long silence is borne while somebody waits for a runner.
type patience struct {
	beat time.Duration // between two looks at whether the runner is heard
	ping time.Duration // for the answer to a ping, before the engine is asked
	// engine is for an engine that answers nothing, not even a ping of its own, while
	// its stream is silent too. It is longer than any stall of a live engine that was
	// seen, and shorter than the default limit of a run, so that a run on an engine
	// that hangs ends as lost with it and not as having taken too long.
	engine time.Duration
	// runner is for a stream that is silent while the engine says that the container
	// runs: the connection may be dead without either end knowing. The runner has
	// nothing to do but to answer, so this is only for a machine that stands still. A
	// file that is on its way waits for no longer.
	runner time.Duration
	// start is for an engine that answers nothing while it starts a container. With the
	// grace of a creation, the removal and the look for another engine it is half a minute.
	start time.Duration
	// silence is the wire.Hello.Silence of a container without a lease, which would
	// otherwise run on for as long as a connection stands still without an end. It is
	// far longer than the stalls of a live engine and than what brig itself waits for,
	// and short for code that nobody hears any more.
	silence time.Duration
}

func defaultPatience() patience {
	return patience{
		beat: 2 * time.Second, ping: 3 * time.Second, engine: 20 * time.Second, runner: 25 * time.Second,
		start: 15 * time.Second, silence: 5 * time.Minute,
	}
}

// silence is what the heartbeat knows of an instance that should answer and does not.
type silence struct {
	pieces uint64    // of the stream that had come
	runner time.Time // since when it is silent; zero: it is not
	engine time.Time // since when the engine is
}

// beat listens, while somebody waits for the runner, whether it is still there. A
// stream that breaks is seen without it; one that falls silent is not.
func (i *instance) beat() {
	tick := time.NewTicker(i.patience.beat)
	defer tick.Stop()
	var s silence
	for {
		select {
		case <-i.life.Done():
			return
		case <-tick.C:
		}
		if i.active.Load() == 0 {
			s = silence{pieces: s.pieces}
			continue
		}
		if e, lost := i.listen(&s); lost {
			i.lose(e)
			return
		}
	}
}

// listen is one look. lost: it is over, and why.
func (i *instance) listen(s *silence) (e sandbox.Ending, lost bool) {
	began := time.Now()
	pieces := i.box.out.pieces.Load()
	heard := pieces != s.pieces
	if !heard {
		asking, cancel := context.WithTimeout(i.life, i.patience.ping)
		heard = i.peer.Ping(asking) == nil
		cancel()
	}
	if heard {
		*s = silence{pieces: i.box.out.pieces.Load()}
		i.paused.Store(false)
		i.box.meter.lives()
		return e, false
	}
	if i.life.Err() != nil {
		return e, false
	}
	if s.runner.IsZero() {
		s.runner = began
	}
	found := i.box.look(i.life)
	i.paused.Store(found == sightPaused)
	switch found {
	case sightPaused: // a person's doing, and a person's to undo: its run has a limit of its own
		s.runner, s.engine = time.Time{}, time.Time{}
	case sightEnded:
		return i.box.classify(i.life, false), true
	case sightNone:
		if s.engine.IsZero() {
			s.engine = began
		}
		if time.Since(s.engine) >= i.patience.engine {
			return sandbox.Ending{
				Cause:  sandbox.BackendLost,
				Detail: fmt.Sprintf("the docker engine at %s does not answer, and has not for %s", i.box.engine.endpoint, i.patience.engine),
			}, true
		}
	case sightRunning, sightBusy:
		s.engine = time.Time{}
		if time.Since(s.runner) >= i.patience.runner {
			return sandbox.Ending{
				Cause:  sandbox.BackendLost,
				Detail: fmt.Sprintf("the container runs, and its connection has been silent for %s", i.patience.runner),
			}, true
		}
	}
	return e, false
}

// lose ends an instance that is still connected.
func (i *instance) lose(e sandbox.Ending) {
	i.end(e)
	_ = i.peer.Close() // what it waits for is bounded, and there is nobody to tell
}

// sight is what the engine says about a container that is silent.
type sight uint8

const (
	sightNone    sight = iota // the engine answers nothing
	sightBusy                 // it lives and did not say in time
	sightRunning              //
	sightPaused               //
	sightEnded                // or removed
)

// look asks the engine; it takes at most twice askTimeout.
func (x *box) look(ctx context.Context) sight {
	asking, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	state, err := x.engine.cli.ContainerInspect(asking, x.id)
	switch {
	case errdefs.IsNotFound(err):
		return sightEnded
	case err == nil && state.State != nil && state.State.Paused:
		return sightPaused
	case err == nil && state.State != nil && state.State.Running:
		return sightRunning
	case err == nil && state.State != nil:
		return sightEnded
	}
	living, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if isAnswer(err) || x.engine.pings(living) {
		return sightBusy
	}
	return sightNone
}
