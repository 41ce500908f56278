//go:build !(linux || darwin || freebsd)

package server

import "net"

// socketPeer cannot be asked here: such a system gets no sockets; see sockets.
func socketPeer(*net.UnixConn) peer { return peer{} }
