//go:build !linux

package main

// becomeBare has nothing to take away: only scripts for Linux ask for it.
func becomeBare() {}
