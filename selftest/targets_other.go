//go:build !linux

package selftest

import "io/fs"

// What follows exists in this way on Linux only; its probes find nothing to go for.

func machineAddresses() []string                { return nil }
func devices() []string                         { return []string{} }
func machineMounts() []string                   { return nil }
func serviceSockets(map[string]string) []string { return nil }
func (y *yard) listenAbstract() any             { return nil }
func (y *yard) listenFifo() any                 { return nil }
func inode(fs.FileInfo) string                  { return "" }
func identity(fs.FileInfo) string               { return "" }

type leaks struct{}

func (p *plot) leak() error   { return nil }
func (p *plot) unleak() error { return nil }

func traits(int) map[string]string { return nil }
func killMarked(string)            {}
func sweepShared()                 {}

func kernelBoot() string { return "" }
