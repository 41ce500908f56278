//go:build !unix

package main

import "io/fs"

// writable does not ask: the answer depends on lists that only an attempt reads right.
func writable(string) error { return nil }

// ownedByMe is for commands that this system does not have.
func ownedByMe(fs.FileInfo) bool { return false }

// giveDirectory is what to do where a directory could not be made.
func giveDirectory(dir string) string { return "make it as administrator: mkdir " + quote(dir) }
