package enginetest

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"
)

func readAll(r *request) ([]byte, error) { return io.ReadAll(io.LimitReader(r.Body, 1<<20)) }

func (e *Engine) start(_ *daemon, w http.ResponseWriter, r *request) {
	c := e.known(w, r)
	if c == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case c.running():
		e.ok(w, http.StatusNotModified, nil)
		return
	case c.status == "exited":
		e.fail(w, http.StatusInternalServerError, "this engine starts a container once only")
		return
	}
	p, err := startProcess(e.dir, c)
	if err != nil {
		c.code = 127
		e.fail(w, http.StatusInternalServerError, "OCI runtime create failed: "+err.Error())
		return
	}
	c.process, c.status, c.started = p, "running", time.Now()
	e.announce(c, "start", nil)
	e.pumping.Go(c.run)
	e.ok(w, http.StatusNoContent, nil)
}

// run follows the process from its start to its end.
func (c *container) run() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.pump(2, c.process.stderr)
	}()
	c.pump(1, c.process.stdout)
	<-done
	code := c.process.wait()
	// The streams end before the state says so, which is the harder order for a client.
	c.endStreams()
	e := c.e
	e.mu.Lock()
	c.status, c.code, c.finished = "exited", code, time.Now()
	e.announce(c, "die", map[string]string{"exitCode": strconv.Itoa(code)})
	e.mu.Unlock()
	close(c.ended)
	if c.want.HostConfig.AutoRemove && e.daemon() != nil {
		e.forget(c)
	}
}

// kill is SIGKILL for everything in the container.
func (c *container) kill() { c.signal("KILL") }

func (c *container) signal(name string) {
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	if c.running() {
		c.process.signal(name)
	}
}

// end sends a signal to a container that runs, and waits for its end.
func (c *container) end(signal string) {
	c.e.mu.Lock()
	running := c.running()
	c.e.mu.Unlock()
	if running {
		c.signal(signal)
		<-c.ended
	}
}

func (e *Engine) killOne(_ *daemon, w http.ResponseWriter, r *request) {
	e.mu.Lock()
	c := e.find(r.name)
	e.mu.Unlock()
	if c == nil {
		e.fail(w, http.StatusNotFound, "Cannot kill container: "+r.name+": No such container: "+r.name)
		return
	}
	e.mu.Lock()
	running := c.running()
	if running {
		e.announce(c, "kill", map[string]string{"signal": r.URL.Query().Get("signal")})
	}
	e.mu.Unlock()
	if !running {
		e.fail(w, http.StatusConflict, "Cannot kill container: "+r.name+": Container "+c.id+" is not running")
		return
	}
	name := r.URL.Query().Get("signal")
	if name == "" {
		name = "KILL"
	}
	c.signal(name)
	if name == "KILL" || name == "SIGKILL" {
		<-c.ended
	}
	e.ok(w, http.StatusNoContent, nil)
}

func (e *Engine) pause(_ *daemon, w http.ResponseWriter, r *request) { e.freeze(w, r, true) }

func (e *Engine) unpause(_ *daemon, w http.ResponseWriter, r *request) { e.freeze(w, r, false) }

func (e *Engine) freeze(w http.ResponseWriter, r *request, stop bool) {
	c := e.known(w, r)
	if c == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case !c.running():
		e.fail(w, http.StatusConflict, "Container "+c.id+" is not running")
	case stop && c.status == "paused":
		e.fail(w, http.StatusConflict, "Container "+c.id+" is already paused")
	case !stop && c.status != "paused":
		e.fail(w, http.StatusInternalServerError, "Container "+c.id+" is not paused")
	default:
		c.setFrozen(stop)
		e.ok(w, http.StatusNoContent, nil)
	}
}

// setFrozen stops every process of a container, or lets them go on. e.mu is held.
func (c *container) setFrozen(stop bool) {
	c.process.freeze(stop)
	if stop {
		c.status = "paused"
		c.e.announce(c, "pause", nil)
	} else {
		c.status = "running"
		c.e.announce(c, "unpause", nil)
	}
}

// wait answers with the headers at once and with the status when there is one.
func (e *Engine) wait(d *daemon, w http.ResponseWriter, r *request) {
	c := e.known(w, r)
	if c == nil {
		return
	}
	condition := r.URL.Query().Get("condition")
	e.headers(w)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	e.mu.Lock()
	over := c.status == "exited"
	e.mu.Unlock()
	until := c.ended
	switch {
	case condition == "next-exit" && over:
		until = make(chan struct{}) // there will be none
	case condition == "removed":
		until = c.removed
	case condition != "next-exit" && over: // not-running is true already
		until = nil
	}
	if until != nil {
		select {
		case <-until:
		case <-r.Context().Done():
			return
		case <-d.gone:
			abort()
		}
	}
	if !d.pass() {
		abort()
	}
	e.mu.Lock()
	code := c.code
	e.mu.Unlock()
	_ = json.NewEncoder(w).Encode(map[string]any{"Error": nil, "StatusCode": code})
}
