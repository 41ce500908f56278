//go:build !windows

package config

// foldVariable: names of variables have their case here.
func foldVariable(name string) string { return name }
