//go:build darwin || freebsd

package server

import (
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// socketPeer asks who connected to a unix socket. Without an answer it is nobody.
func socketPeer(c *net.UnixConn) peer {
	raw, err := c.SyscallConn()
	if err != nil {
		return peer{}
	}
	var cred *unix.Xucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		cred, failed = unix.GetsockoptXucred(int(fd), solLocal, unix.LOCAL_PEERCRED)
	})
	if err != nil || failed != nil {
		return peer{}
	}
	return peerOf(int(cred.Uid), 0, os.Geteuid())
}

// solLocal is SOL_LOCAL, the level of options of unix sockets.
const solLocal = 0
