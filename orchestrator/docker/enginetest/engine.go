package enginetest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// Options of an Engine.
type Options struct {
	// Flavor is what the engine says it is and how it differs; the zero value is Docker20.
	Flavor Flavor
	// TCP makes it listen on loopback instead of on a unix socket; TLS encrypts that.
	TCP bool
	TLS *tls.Config
	// LiveRestore lets containers survive Terminate and Restart.
	LiveRestore bool
	// Images is an engine whose images this one has from the start, and not after that one.
	Images *Engine
	// Warnings are in the answer to info, CreateWarnings in that to create.
	Warnings, CreateWarnings []string
}

// Engine is a daemon with its images and containers. The containers outlive a
// daemon that is killed, as they do with their shims in the real world.
type Engine struct {
	options Options
	dir     string // everything of this engine
	address string // path of the socket, or host:port
	flavor  Flavor

	mu         sync.Mutex
	serving    *daemon // nil while there is none
	images     map[string]*image
	containers map[string]*container
	faults     []*Injected
	listeners  map[*listener]bool // of events
	history    []event            // the last of them, for who asks what happened since
	requests   []string           // "POST create", in the order of their arrival
	clock      int64              // makes every event and creation later than the one before
	pumping    sync.WaitGroup     // every goroutine that belongs to a container
}

// daemon is one life of the process that answers.
type daemon struct {
	server *http.Server
	conns  map[*conn]bool // guarded by Engine.mu
	gone   chan struct{}  // closed when it ends
	serve  sync.WaitGroup // the goroutine of server.Serve and those of hijacked streams

	mu   sync.Mutex
	hung chan struct{} // not nil while it hangs; closed when it goes on
}

// New starts an engine that has the base image debian:trixie-slim and ends with t.
func New(t testing.TB, o Options) *Engine {
	t.Helper()
	if o.Flavor == (Flavor{}) {
		o.Flavor = Docker20()
	}
	dir, err := os.MkdirTemp("", "engine") // short: the path of a socket is bounded
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { // whoever runs in a container reads its image here
		t.Fatal(err)
	}
	e := &Engine{
		options: o, dir: dir, flavor: o.Flavor, images: map[string]*image{}, containers: map[string]*container{},
		listeners: map[*listener]bool{},
	}
	if o.Images == nil {
		e.addBase("debian:trixie-slim")
	} else {
		e.share(o.Images)
	}
	if err := e.listen(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		e.Kill()
		for _, c := range e.all() {
			c.kill()
		}
		e.pumping.Wait()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return e
}

// Endpoint is where the engine answers, as DOCKER_HOST names it.
func (e *Engine) Endpoint() string {
	if e.options.TCP {
		return "tcp://" + e.address
	}
	return "unix://" + e.address
}

// Requests lists what was asked since the start, such as "create" or "attach".
func (e *Engine) Requests() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.requests...)
}

func (e *Engine) listen() error {
	var l net.Listener
	var err error
	switch {
	case e.options.TCP && e.address == "":
		l, err = net.Listen("tcp", "127.0.0.1:0")
	case e.options.TCP:
		l, err = net.Listen("tcp", e.address)
	default:
		e.address = filepath.Join(e.dir, "docker.sock")
		if err := os.Remove(e.address); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		l, err = net.Listen("unix", e.address)
	}
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // as a daemon that is killed leaves it
	} else {
		e.address = l.Addr().String()
	}
	if e.options.TLS != nil {
		l = tls.NewListener(l, e.options.TLS)
	}
	d := &daemon{conns: map[*conn]bool{}, gone: make(chan struct{})}
	d.server = &http.Server{
		Handler:     http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { e.handle(d, w, r) }),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		ErrorLog:    silent(),
	}
	e.mu.Lock()
	e.serving = d
	e.mu.Unlock()
	d.serve.Go(func() { _ = d.server.Serve(&tracking{Listener: l, e: e, d: d}) })
	return nil
}

// Kill ends the daemon as SIGKILL does: every connection ends at once, the socket
// stays and nobody listens on it, containers run on.
func (e *Engine) Kill() {
	e.mu.Lock()
	d := e.serving
	e.serving = nil
	e.mu.Unlock()
	if d == nil {
		return
	}
	close(d.gone)
	_ = d.server.Close()
	e.mu.Lock()
	for c := range d.conns {
		_ = c.Conn.Close()
	}
	e.mu.Unlock()
	d.serve.Wait()
}

// Terminate ends the daemon as SIGTERM does: without LiveRestore it ends every
// container first and waits for that, and only then do the streams end.
func (e *Engine) Terminate() {
	if !e.options.LiveRestore {
		for _, c := range e.all() {
			c.end("TERM")
		}
	}
	e.Kill()
}

// Restart brings the daemon back at the same place. Without LiveRestore it first
// kills what an earlier one left running, as Docker does.
func (e *Engine) Restart(t testing.TB) {
	t.Helper()
	e.Kill()
	if !e.options.LiveRestore {
		for _, c := range e.all() {
			c.end("KILL")
		}
	}
	for _, c := range e.all() { // what ended while nobody looked
		e.mu.Lock()
		over := c.status == "exited" && c.want.HostConfig.AutoRemove
		e.mu.Unlock()
		if over {
			e.forget(c)
		}
	}
	if err := e.listen(); err != nil {
		t.Fatal(err)
	}
}

// Hang stops the daemon as SIGSTOP does: connections are accepted by the kernel and
// nobody answers; streams fall silent. Resume is SIGCONT.
func (e *Engine) Hang() {
	if d := e.daemon(); d != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.hung == nil {
			d.hung = make(chan struct{})
		}
	}
}

// Resume lets a daemon that hangs go on.
func (e *Engine) Resume() {
	if d := e.daemon(); d != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.hung != nil {
			close(d.hung)
			d.hung = nil
		}
	}
}

func (e *Engine) daemon() *daemon {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.serving
}

// pass waits while the daemon hangs; false: it is gone.
func (d *daemon) pass() bool {
	d.mu.Lock()
	hung := d.hung
	d.mu.Unlock()
	if hung != nil {
		select {
		case <-hung:
		case <-d.gone:
		}
	}
	select {
	case <-d.gone:
		return false
	default:
		return true
	}
}

func (e *Engine) all() []*container {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := make([]*container, 0, len(e.containers))
	for _, c := range e.containers {
		list = append(list, c)
	}
	return list
}

// tick is a time in nanoseconds that is later than every one before.
func (e *Engine) tick(now int64) int64 {
	e.clock = max(e.clock+1, now)
	return e.clock
}
