package docker

import (
	"errors"
	"io"
	"net"
	"sync"
)

// sshConn makes every failure say what ssh said last. When ssh has ended, only the
// first read that meets the end is told; a write meets a broken pipe, and whoever
// comes second finds the pipe closed.
type sshConn struct {
	net.Conn
	mu  sync.Mutex // held while reading
	why error      // guarded by mu: of the first read that failed
}

func (c *sshConn) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.read(p)
}

func (c *sshConn) read(p []byte) (int, error) {
	if c.why != nil {
		return 0, c.why
	}
	n, err := c.Conn.Read(p)
	c.why = err
	return n, err
}

func (c *sshConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err == nil {
		return n, nil
	}
	// The connection is of no use any more, so no answer is taken away here. A read
	// that has to wait ends with the connection, as any other.
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, why := c.read(make([]byte, 1)); why != nil && !errors.Is(why, io.EOF) {
		return n, why
	}
	return n, err
}
