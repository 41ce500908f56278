package sandboxtest

import (
	"sort"
	"strconv"
	"sync"

	"brig/orchestrator/wire"
)

// process is a goroutine that stands for a process of the fake: it has a
// number, it was started during a run, and it ends when it is killed.
type process struct {
	pid    int
	name   string
	run    wire.RunID
	killed chan struct{} // closed by kill; the body returns soon after
	gone   chan struct{} // closed when the body has returned
}

// table is what the fake has instead of a kernel: every process of one
// instance. Kill waits for the bodies, so nothing outlives it.
type table struct {
	mu     sync.Mutex
	next   int
	live   map[int]*process
	closed bool
}

func newTable() *table { return &table{live: make(map[int]*process)} }

// spawn starts body as a process. On a closed table nothing starts and spawn returns nil.
func (t *table) spawn(name string, run wire.RunID, body func(p *process)) *process {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	t.next++
	p := &process{
		pid: t.next, name: name, run: run,
		killed: make(chan struct{}), gone: make(chan struct{}),
	}
	t.live[p.pid] = p
	go func() {
		defer close(p.gone)
		body(p)
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.live, p.pid)
	}()
	return p
}

// kill ends the processes that match and waits until they are gone; it returns how many.
func (t *table) kill(match func(*process) bool) int {
	t.mu.Lock()
	var hit []*process
	for _, p := range t.live {
		if !match(p) {
			continue
		}
		hit = append(hit, p)
		select {
		case <-p.killed:
		default:
			close(p.killed)
		}
	}
	t.mu.Unlock()
	for _, p := range hit {
		<-p.gone
	}
	return len(hit)
}

// close kills everything and lets nothing start again.
func (t *table) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.kill(func(*process) bool { return true })
}

// list is what an outside observer sees.
func (t *table) list() []Process {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]Process, 0, len(t.live))
	for _, p := range t.live {
		out = append(out, Process{ID: strconv.Itoa(p.pid), Command: p.name})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].ID < out[j].ID })
	return out
}
