package sandbox

import (
	"context"
	"errors"
)

// What only some backends and instances can do is an interface of its own: the
// caller asks for it with a type assertion, and does without it where it is missing.

// ErrGone is Adopt's answer when there is nothing to adopt: the instance has
// ended, was removed, or is another one than the adoption describes.
var ErrGone = errors.New("the instance is gone")

// Adopter is a Backend whose instances can outlive the process that made them,
// if they were prepared with a Base.Lease.
type Adopter interface {
	Backend
	// Adopt connects to an instance that an earlier process of this owner left, ends
	// what it was running (softly first: its caller is gone, its variables are not),
	// and seals a posture that was observed anew. ErrGone: there is none. On any other
	// error the instance is left as it was, to be tried again until its lease ends.
	Adopt(ctx context.Context, a Adoption) (Instance, error)
}

// Adoption describes the instance that is wanted back, from what its Handle was.
type Adoption struct {
	Handle    Handle
	ID        InstanceID
	Base      Base   // that it was prepared with
	Workspace string // host directory that it was prepared with
}

// Handle is how a later process finds an instance again. It is stored by whoever
// wants to; the secret belongs in a file that only the user can read.
type Handle struct {
	Name   string // the backend's own name for it, such as a container's id
	Secret string // proves to the runner that it is its brig that is back
	// Label is what Sweep asks keep about where that is not the instance's ID: it was
	// given before a session claimed the instance. Empty: the ID.
	Label InstanceID
}

// Keepable is an Instance that was prepared with a Base.Lease.
type Keepable interface {
	Instance
	// Handle is constant.
	Handle() Handle
	// Detach lets go of the instance without ending it: the connection is closed,
	// Done is closed, Cause is cancelled, and Close does nothing any more. It is
	// idempotent; after Close it does nothing.
	Detach(ctx context.Context) error
}

// Meter is an Instance whose use can be read from outside of it, where nothing
// inside can forge the numbers.
type Meter interface {
	Instance
	// Counters reads them now; it costs microseconds. ok is false where this instance
	// cannot be read on this machine, and stays so.
	Counters() (c Counters, ok bool)
}

// Counters only ever grow during the life of an instance.
type Counters struct {
	OOMKills     int64  // processes that the kernel killed at the memory limit
	ForkFailures int64  // processes or threads refused at the process limit; -1: not counted here
	Source       string // "cgroup v1 memory.oom_control"
}
