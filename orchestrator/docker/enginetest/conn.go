package enginetest

import (
	"io"
	"log"
	"net"
	"sync"
)

// tracking wraps the connections of a daemon, so that they can be cut.
type tracking struct {
	net.Listener
	e *Engine
	d *daemon
}

func (t *tracking) Accept() (net.Conn, error) {
	c, err := t.Listener.Accept()
	if err != nil {
		return nil, err
	}
	wrapped := &conn{Conn: c, left: -1}
	wrapped.closed = func() {
		t.e.mu.Lock()
		defer t.e.mu.Unlock()
		delete(t.d.conns, wrapped)
	}
	t.e.mu.Lock()
	defer t.e.mu.Unlock()
	t.d.conns[wrapped] = true
	select {
	case <-t.d.gone: // it came too late to be closed with the others
		_ = c.Close()
	default:
	}
	return wrapped, nil
}

type connKey struct{}

// conn is one connection that a fault may cut.
type conn struct {
	net.Conn
	closed func()

	mu   sync.Mutex
	left int // bytes that may still be written; -1: any number
}

// cutAfter closes the connection once so many more bytes were written.
func (c *conn) cutAfter(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = n
}

func (c *conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	left := c.left
	if left >= 0 {
		c.left = max(left-len(p), 0)
	}
	c.mu.Unlock()
	if left < 0 || len(p) < left {
		return c.Conn.Write(p)
	}
	n, err := c.Conn.Write(p[:left])
	_ = c.Close()
	if err == nil {
		err = io.ErrClosedPipe
	}
	return n, err
}

func (c *conn) Close() error {
	c.closed()
	return c.Conn.Close()
}

// CloseWrite lets the hijacked side be half closed, as the daemon does.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

func silent() *log.Logger { return log.New(io.Discard, "", 0) }
