package server

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"brig/orchestrator/api"
)

var errServerClosed = http.ErrServerClosed

const (
	refusing     = 512             // connections at the same time that may still take in that there is no room
	refusalBound = 1 * time.Second // for telling one
)

// listener accepts connections, up to its room, and tells the others so.
type listener struct {
	*socket
	from    from
	room    int64
	gap     time.Duration
	open    atomic.Int64
	refused chan struct{}
	count   *connections
}

// Accept returns a *conn.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		who := l.peer(c)
		if who.foreign { // nothing is said to another user
			l.count.foreign.Add(1)
			_ = c.Close()
			continue
		}
		if l.open.Add(1) > l.room {
			l.open.Add(-1)
			l.count.refused.Add(1)
			l.refuse(c)
			continue
		}
		return newConn(c, l, who, func() { l.open.Add(-1) }), nil
	}
}

func (l *listener) peer(c net.Conn) peer {
	switch c := c.(type) {
	case *net.UnixConn:
		return socketPeer(c)
	case *net.TCPConn:
		return loopbackPeer(c)
	}
	return peer{}
}

// refuse tells a connection that there is no room. Closing with something unread
// would throw the answer away on its way, so what comes is read for a moment, where
// not too many are waited for already.
func (l *listener) refuse(c net.Conn) {
	_ = c.SetDeadline(time.Now().Add(refusalBound))
	_, err := c.Write(rawProblem(later(api.CodeTooMany, "too many connections are open"))) // fits into the kernel's buffer
	half, ok := c.(interface{ CloseWrite() error })
	if err != nil || !ok || half.CloseWrite() != nil {
		_ = c.Close()
		return
	}
	select {
	case l.refused <- struct{}{}:
	default:
		_ = c.Close()
		return
	}
	go func() {
		defer func() { <-l.refused }()
		defer c.Close()
		_, _ = io.CopyN(io.Discard, c, 64<<10)
	}()
}

// socket is a listener with the file that stands for it.
type socket struct {
	net.Listener
	path string
	info os.FileInfo
}

// listenSocket makes a socket that only this user can open, in place of what has its
// name. It gets its name when its mode is right; the umask is the whole process's,
// so that changing it meanwhile would spoil what others make.
func listenSocket(dir, name string) (*socket, error) {
	path, temp := filepath.Join(dir, name), filepath.Join(dir, name+".new")
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() != fs.ModeSocket {
		return nil, fmt.Errorf("listen at %s: something that is no socket has this name; move it away", path)
	}
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listen at %s: %w", path, err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: temp, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen at %s: %w", path, err)
	}
	l.SetUnlinkOnClose(false)
	err = os.Chmod(temp, 0o600)
	var info os.FileInfo
	if err == nil {
		info, err = os.Lstat(temp)
	}
	if err == nil && info.Mode() != fs.ModeSocket|0o600 {
		err = fmt.Errorf("its mode is %v", info.Mode())
	}
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen at %s: %w", path, err), l.Close(), os.Remove(temp))
	}
	return &socket{l, path, info}, nil
}

// remove takes the file away, if it is still this socket's.
func (s *socket) remove() error {
	if s.path == "" {
		return nil
	}
	info, err := os.Lstat(s.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(info, s.info) {
		return nil
	}
	return errors.Join(err, os.Remove(s.path))
}

// isTooLong says that a path does not fit into the address of a socket.
func isTooLong(err error) bool {
	return errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENAMETOOLONG)
}
