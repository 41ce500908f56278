//go:build !(linux || darwin || freebsd)

package server

// sockets says whether this system tells who connects to a unix socket. Where it
// does not, there are none: programs use loopback and a token.
const sockets = false
