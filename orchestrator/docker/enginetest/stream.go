package enginetest

import (
	"encoding/binary"
	"io"
	"net"
	"net/http"
)

// stream is one attached client.
type stream struct {
	conn  net.Conn
	noEnd bool
	ended chan struct{} // closed when the daemon has ended it
}

// attach takes the connection over: what the client sends is the container's input,
// what the container writes goes out in frames.
func (e *Engine) attach(d *daemon, w http.ResponseWriter, r *request) {
	c := e.known(w, r)
	if c == nil {
		return
	}
	e.mu.Lock()
	status := c.status
	e.mu.Unlock()
	if e.flavor.Podman && status == "created" {
		e.fail(w, http.StatusConflict, "container "+c.id+" is not running: container state improper")
		return
	}
	tracked := r.Context().Value(connKey{}).(*conn)
	hijacked, buffered, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic("BUG: a connection cannot be taken over: " + err.Error())
	}
	s := &stream{conn: hijacked, noEnd: r.fault.NoEnd, ended: make(chan struct{})}
	_, _ = io.WriteString(hijacked, "HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
	if r.fault.CutAfter > 0 {
		tracked.cutAfter(r.fault.CutAfter)
	}
	d.serve.Go(func() { c.serve(d, s, buffered.Reader) })
}

// serve carries the input and ends when the client, the daemon or the stream does.
func (c *container) serve(d *daemon, s *stream, from io.Reader) {
	c.out.Lock()
	c.streams[s] = true
	c.out.Unlock()
	defer func() {
		c.out.Lock()
		delete(c.streams, s)
		c.out.Unlock()
		_ = s.conn.Close()
	}()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if !d.pass() {
			return // its input is not ended by a daemon that dies
		}
		if n > 0 && c.input(buffer[:n]) != nil {
			break
		}
		if err != nil {
			if c.want.StdinOnce {
				c.endInput()
			}
			break
		}
	}
	select {
	case <-s.ended:
	case <-d.gone:
	case <-c.removed:
	}
}

func (c *container) input(p []byte) error {
	c.e.mu.Lock()
	process := c.process
	c.e.mu.Unlock()
	if process == nil {
		return io.ErrClosedPipe
	}
	_, err := process.stdin.Write(p)
	return err
}

func (c *container) endInput() {
	c.e.mu.Lock()
	process := c.process
	c.e.mu.Unlock()
	if process != nil {
		_ = process.stdin.Close()
	}
}

// pump sends one of the outputs to every client, in frames of at most 32 KiB.
func (c *container) pump(number byte, from io.Reader) {
	frame := make([]byte, 8+32<<10)
	for {
		n, err := from.Read(frame[8:])
		if n > 0 {
			frame[0] = number
			binary.BigEndian.PutUint32(frame[4:], uint32(n))
			c.deliver(frame[:8+n])
		}
		if err != nil {
			return
		}
	}
}

// deliver waits while the daemon hangs. Without a daemon, what comes is lost.
func (c *container) deliver(frame []byte) {
	if d := c.e.daemon(); d != nil {
		d.pass()
	}
	c.out.Lock()
	defer c.out.Unlock()
	for s := range c.streams {
		if _, err := s.conn.Write(frame); err != nil {
			delete(c.streams, s)
		}
	}
}

// endStreams closes what is attached when the container has ended.
func (c *container) endStreams() {
	if d := c.e.daemon(); d != nil {
		d.pass()
	}
	c.out.Lock()
	defer c.out.Unlock()
	for s := range c.streams {
		if s.noEnd {
			continue
		}
		delete(c.streams, s)
		_ = s.conn.Close()
		close(s.ended)
	}
}
