package docker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"
)

// reopenAfter is the pause before an event stream that ended is opened again; it
// doubles up to reopenMost, because an engine that restarts takes seconds.
const (
	reopenAfter = 100 * time.Millisecond
	reopenMost  = 2 * time.Second
)

// feed is the one event subscription on an engine. It runs while somebody follows
// a container, and nobody waits for it: what it has not heard is not known, and
// whoever reads a witness has other evidence too.
type feed struct {
	owner string

	mu       sync.Mutex
	follows  map[string]*witness // by container id
	listener *listener           // nil while nobody follows
}

type listener struct {
	cancel  context.CancelFunc
	running sync.WaitGroup
}

func newFeed(owner string) *feed { return &feed{owner: owner, follows: map[string]*witness{}} }

// follow begins to note what happens to a container. leave ends it.
func (f *feed) follow(cli *client.Client, id string) *witness {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := &witness{dead: make(chan struct{})}
	f.follows[id] = w
	if f.listener == nil {
		ctx, cancel := context.WithCancel(context.Background())
		l := &listener{cancel: cancel}
		l.running.Go(func() { f.listen(ctx, cli) })
		f.listener = l
	}
	return w
}

// leave forgets a container; the last one ends the subscription and waits for that.
func (f *feed) leave(id string) {
	f.mu.Lock()
	delete(f.follows, id)
	var last *listener
	if len(f.follows) == 0 {
		last, f.listener = f.listener, nil
	}
	f.mu.Unlock()
	if last != nil {
		last.cancel()
		last.running.Wait()
	}
}

// listen keeps one stream open. After a break it asks for what it has missed, as
// far as the engine remembers; hearing something twice changes nothing.
func (f *feed) listen(ctx context.Context, cli *client.Client) {
	var latest int64
	pause := reopenAfter
	for {
		options := events.ListOptions{Filters: filters.NewArgs(
			filters.Arg("type", string(events.ContainerEventType)), filters.Arg("label", labelOwner+"="+f.owner),
		)}
		for _, action := range followed() {
			options.Filters.Add("event", string(action))
		}
		if latest > 0 {
			options.Since = fmt.Sprintf("%d.%09d", latest/int64(time.Second), latest%int64(time.Second))
		}
		messages, failures := cli.Events(ctx, options)
		for open := true; open; {
			select {
			case m := <-messages:
				latest, pause = max(latest, m.TimeNano), reopenAfter
				f.hear(m)
			case <-failures: // why does not matter: it is opened again
				open = false
			}
		}
		again := time.NewTimer(pause)
		select {
		case <-again.C:
			pause = min(2*pause, reopenMost)
		case <-ctx.Done():
			again.Stop()
			return
		}
	}
}

// followed are the events that say something about why a container ended or is silent.
func followed() []events.Action {
	return []events.Action{
		events.ActionOOM, events.ActionKill, events.ActionDie, events.ActionDestroy, events.ActionPause, events.ActionUnPause,
		"died", "remove", // Podman's words for die and destroy
	}
}

func (f *feed) hear(m events.Message) {
	f.mu.Lock()
	w := f.follows[m.Actor.ID]
	f.mu.Unlock()
	if w != nil {
		w.hear(m)
	}
}

// witness is what the engine said about one container. Times are the engine's own
// clock and are compared with each other only.
type witness struct {
	dead chan struct{} // closed when the end was told

	mu     sync.Mutex
	oom    int64 // when a process last met the memory limit; 0: never
	killed int64 // when the engine was last asked to send SIGKILL
	died   int64
	paused bool
}

func (w *witness) hear(m events.Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch m.Action {
	case events.ActionOOM:
		w.oom = max(w.oom, m.TimeNano)
	case events.ActionKill:
		if signal := m.Actor.Attributes["signal"]; signal == "9" || signal == "SIGKILL" || signal == "" {
			w.killed = max(w.killed, m.TimeNano)
		}
	case events.ActionPause:
		w.paused = true
	case events.ActionUnPause:
		w.paused = false
	case events.ActionDie, "died", events.ActionDestroy, "remove":
		if w.died == 0 {
			w.died = m.TimeNano
			close(w.dead)
		}
	}
}

// isPaused is the last that was told. A nil witness was told nothing.
func (w *witness) isPaused() bool {
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.paused
}

const (
	// deathTold is how long an end that was seen otherwise may take to be told.
	deathTold = 500 * time.Millisecond
	// oomBefore is how long before the end the memory limit may have been met to be
	// its reason. The engine tells both within milliseconds of each other on an idle
	// machine; one that is out of memory is slow.
	oomBefore = 2 * time.Second
)

// testimony is what the witness has to say about an end.
type testimony struct {
	heard  bool // the end itself was told, so what is not in here did not happen
	oom    bool // the memory limit was met just before
	killed bool // the engine was asked to kill the container
}

// testify waits a little for the end to be told.
func (w *witness) testify(ctx context.Context) testimony {
	if w == nil {
		return testimony{}
	}
	patience := time.NewTimer(deathTold)
	defer patience.Stop()
	select {
	case <-w.dead:
	case <-patience.C:
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return testimony{
		heard:  w.died != 0,
		oom:    w.oom != 0 && (w.died == 0 || w.died-w.oom < int64(oomBefore)),
		killed: w.killed != 0,
	}
}
