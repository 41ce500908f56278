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
	var cred *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err != nil || failed != nil {
		return peer{}
	}
	return peerOf(int(cred.Uid), int(cred.Pid), os.Geteuid())
}
