// Package server is how programs of this machine reach a living brig: it listens on
// two unix sockets and on loopback, finds out who asks, refuses what is not meant
// for it, and hands the rest to the operations, which speak for package service.
//
// Everything that comes in is hostile until the chain has let it pass: another
// user's process, a web page in the user's browser, a client that sends or reads
// one byte a minute. The order of the chain is in chain.go, and nothing is served
// beside it.
package server
