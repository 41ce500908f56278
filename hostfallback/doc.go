// Package hostfallback is the host backend: one process tree per session under
// the operating system's own means.
//
// This package is the parent side. It chooses the interpreter, writes the plan
// of what an instance may do, starts a supervisor for it (package confine, in a
// process of its own) and speaks with the runner over a pair of pipes. What an
// instance enforces is told by its posture, which is made of what the helper
// reported and the runner observed, never of the plan.
//
// Linux is supported: hygiene, limits, a mount namespace where the kernel gives
// one, Landlock, a system call filter, and a tree kill. Elsewhere the backend
// answers *sandbox.Unavailable. It is not a virtual machine: the kernel is
// shared, and whoever finds a hole in it is out.
package hostfallback
