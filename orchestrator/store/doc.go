// Package store remembers across restarts which sessions exist, what they are
// made of and which brig holds each of them. It is one SQLite file in the state
// directory.
//
// What a call has acknowledged is on the disk: it survives a kill at any moment
// and, but for Begin and End, a power cut. Several processes may use the file at
// the same time. Every session has one holder, the process token in its row, and
// changes are made by the holder only; a row passes from a dead process to a live
// one by Claim, which exactly one of any number of claimants wins.
//
// The store decides nothing: whether a process is dead, what may be adopted and
// what is removed is the orchestrator's business. It neither logs nor opens what
// its rows name.
package store
