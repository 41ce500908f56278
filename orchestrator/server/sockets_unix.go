//go:build linux || darwin || freebsd

package server

// sockets says whether this system tells who connects to a unix socket.
const sockets = true
