package sandboxtest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// machine is where the fake's instances live. Like an engine it outlives the
// brig that uses it.
type machine struct {
	mu       sync.Mutex
	made     int
	nodes    map[string]*node // by name
	leftover map[string][]sandbox.InstanceID
}

func newMachine() *machine {
	return &machine{nodes: make(map[string]*node), leftover: make(map[string][]sandbox.InstanceID)}
}

// node is one started containment: what a container is to docker.
type node struct {
	machine   *machine
	name      string
	owner     string
	secret    string
	base      sandbox.Base
	workspace string // host directory that it was prepared with
	own       string // directory of its own, empty unless it is detached from that
	runner    *memoryRunner
	unmetered bool

	next  chan *link
	stop  chan struct{} // closed to end it
	once  sync.Once
	ended chan struct{} // closed when the runner and all its processes have ended

	mu       sync.Mutex
	id       sandbox.InstanceID // empty: no session has it
	holder   *memoryInstance    // who is connected, or was last
	link     *link              // the latest
	counters *sandbox.Counters  // set by a test; nil: what the runner counted
}

// start makes a node for m and its first connection.
func (m *Memory) start(base sandbox.Base, workspace string) (*node, error) {
	n := &node{
		machine: m.machine, owner: m.o.Owner, base: base, workspace: workspace, unmetered: m.o.Unmetered,
		next: make(chan *link), stop: make(chan struct{}), ended: make(chan struct{}),
	}
	dir := workspace
	if m.o.Detached {
		if _, err := os.Stat(workspace); err != nil {
			return nil, fmt.Errorf("look at the workspace: %w", err)
		}
		var err error
		if n.own, err = os.MkdirTemp("", "brig-memory-"); err != nil {
			return nil, fmt.Errorf("make a workspace: %w", err)
		}
		dir = n.own
	}
	var err error
	if n.runner, err = newMemoryRunner(dir, base.Limits.WithDefaults().Memory); err != nil {
		return nil, errors.Join(err, n.clear())
	}
	n.runner.stuck, n.runner.lie, n.runner.lasts = m.o.Stuck, m.o.Lie, base.Lease > 0
	if base.Lease > 0 {
		var secret [32]byte
		_, _ = rand.Read(secret[:]) // it never fails
		n.secret = hex.EncodeToString(secret[:])
	}
	m.machine.mu.Lock()
	m.machine.made++
	n.name = fmt.Sprintf("memory-%d", m.machine.made)
	m.machine.nodes[n.name] = n
	m.machine.mu.Unlock()
	go n.live()
	return n, nil
}

// live serves one connection after the other. Without a lease the first is the
// only one. It is the goroutine that the node is; everybody who ends a node waits
// for ended.
func (n *node) live() {
	defer close(n.ended)
	n.runner.start()
	// The first connection comes at once, from whoever called start.
	wait := 0 * time.Second
	for first := true; ; first = false {
		l := n.connection(first, wait)
		if l == nil {
			break
		}
		n.runner.serve(l)
		if wait = n.base.Lease; wait == 0 {
			break
		}
	}
	n.runner.stop()
	_ = n.clear() // a directory of the system's temporary ones
	n.machine.mu.Lock()
	delete(n.machine.nodes, n.name)
	n.machine.mu.Unlock()
}

// connection waits for the next connection until the lease is over; nil: there is none.
func (n *node) connection(first bool, lease time.Duration) *link {
	var over <-chan time.Time
	if !first {
		timer := time.NewTimer(lease)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-n.stop:
		return nil
	default:
	}
	select {
	case l := <-n.next:
		return l
	case <-over:
	case <-n.stop:
	}
	return nil
}

func (n *node) clear() error {
	if n.own == "" {
		return nil
	}
	return os.RemoveAll(n.own)
}

// dir is what the runner calls its workspace.
func (n *node) dir() string {
	if n.own != "" {
		return n.own
	}
	return n.workspace
}

// connect gives i a new connection to the runner and greets it. Whoever was
// connected before is cut off.
func (n *node) connect(ctx context.Context, i *memoryInstance) error {
	fromBrig, toRunner := io.Pipe()
	fromRunner, toBrig := io.Pipe()
	closeBoth := func() error {
		return errors.Join(fromBrig.Close(), toRunner.Close(), fromRunner.Close(), toBrig.Close())
	}
	l := n.runner.connect(fromBrig, toBrig, closeBoth)
	n.mu.Lock()
	earlier := n.link
	n.mu.Unlock()
	if earlier != nil {
		_ = earlier.mux.Close() // pipes in memory close without an error
	}
	select {
	case n.next <- l:
	case <-n.ended:
		l.cancel()
		_ = l.mux.Close()
		return sandbox.ErrGone
	}
	n.mu.Lock()
	n.link, n.holder = l, i
	n.mu.Unlock()
	i.link = l
	if n.dying() { // kill may have looked before there was a link
		_ = l.mux.Close()
	}
	i.peer = wire.NewPeer(fromRunner, toRunner, wire.PeerOptions{Close: closeBoth})
	i.watching.Go(i.watch)
	hello := wire.Hello{
		Version: wire.Version, Workspace: n.dir(), Scratch: n.dir(), Bounds: n.base.Limits.WithDefaults().Bounds(),
		Lease: n.base.Lease, Resume: n.secret,
	}
	if _, err := i.peer.Hello(ctx, hello); err != nil {
		return fmt.Errorf("greet the runner: %w", err)
	}
	return nil
}

// kill ends the runner and everything it started, and waits for that.
func (n *node) kill() {
	n.once.Do(func() { close(n.stop) })
	n.mu.Lock()
	l := n.link
	n.mu.Unlock()
	if l != nil {
		_ = l.mux.Close() // pipes in memory close without an error
	}
	<-n.ended
}

// dying says that somebody ends it.
func (n *node) dying() bool {
	select {
	case <-n.stop:
		return true
	default:
		return false
	}
}

// connected says that a brig holds it.
func (n *node) connected() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.link == nil {
		return true // about to be
	}
	select {
	case <-n.link.over:
		return false
	default:
		return true
	}
}

func (n *node) instanceID() sandbox.InstanceID {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.id
}

func (n *node) heldBy() *memoryInstance {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.holder
}

// all lists the nodes that match.
func (m *machine) all(match func(*node) bool) []*node {
	m.mu.Lock()
	var out []*node
	for _, n := range m.nodes {
		out = append(out, n)
	}
	m.mu.Unlock()
	return slices.DeleteFunc(out, func(n *node) bool { return !match(n) })
}

// named is the node with that name, nil for none.
func (m *machine) named(name string) *node {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.nodes[name]
}

// find is the node with that id, nil for none.
func (m *machine) find(id sandbox.InstanceID) *node {
	for _, n := range m.all(func(n *node) bool { return n.instanceID() == id }) {
		return n
	}
	return nil
}
