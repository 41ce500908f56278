//go:build linux || darwin || freebsd

package server

import (
	"net"
	"os"
)

// socketPeer asks who connected to a unix socket. Without an answer it is nobody.
func socketPeer(c *net.UnixConn) peer {
	raw, err := c.SyscallConn()
	if err != nil {
		return peer{}
	}
	var uid, pid int
	var failed error
	err = raw.Control(func(fd uintptr) { uid, pid, failed = credentials(int(fd)) })
	if err != nil || failed != nil {
		return peer{}
	}
	return peerOf(uid, pid, os.Geteuid())
}
