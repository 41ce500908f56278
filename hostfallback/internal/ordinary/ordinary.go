// Package ordinary runs a test binary as an ordinary user. Root may do almost
// everything that a sandbox forbids, so a test as root would pass for the wrong
// reason. It is for tests only.
package ordinary
