package hostfallback

import (
	"errors"
	"path/filepath"
	"time"
)

// Options of a Backend. Cache, Runtime and Owner are required.
type Options struct {
	// Executable is the program that Dispatch is called in; empty means this one.
	Executable string
	// Python is the interpreter where sandbox.Base names none; empty means found on PATH.
	Python string
	// Env reads a variable of the process; nil means that none is set. PATH and
	// HOME are read, nothing of it reaches an instance.
	Env func(name string) (string, bool)
	// Cache holds the runner's files and what was learnt about interpreters.
	Cache string
	// Runtime holds one directory for each living instance.
	Runtime string
	// Owner is the stable id of this brig installation. Sweep never goes beyond it.
	Owner string
	// Protected are directories that no grant may contain, such as brig's own.
	Protected []string
	patience  time.Duration // of who waits for an interpreter's answer; zero is askTimeout
	// Zygotes are warmed interpreters that instances are forked from; none without it.
	Zygotes ZygoteOptions
	sabotaged
}

func (o Options) check() error {
	switch {
	case o.Owner == "":
		return errors.New("the host backend needs an owner")
	case !filepath.IsAbs(o.Cache) || !filepath.IsAbs(o.Runtime):
		return errors.New("the host backend needs absolute cache and runtime directories")
	}
	return nil
}

// env reads a variable; a missing one is empty.
func (o Options) env(name string) string {
	if o.Env == nil {
		return ""
	}
	value, _ := o.Env(name)
	return value
}

// instances is the directory that holds those of all instances.
func (o Options) instances() string { return filepath.Join(o.Runtime, "host") }
