// Package hostfallback is the host backend: one process tree per session under
// the operating system's own means.
//
// This package is the parent side. It chooses the interpreter, writes the plan
// of what an instance may do, starts a supervisor for it (package confine, in a
// process of its own) and speaks with the runner over a pair of pipes. What an
// instance enforces is told by its posture, which is made of what the helper
// reported and the runner observed, never of the plan.
//
// On Linux: hygiene, limits, namespaces where the kernel gives them (a root, a
// /proc and a network stack of the instance's own), a control group where one was
// handed over, Landlock, a system call filter, and a tree kill. macOS and Windows
// have what these systems offer, and say what that is. It is not a virtual machine: the kernel is
// shared, and whoever finds a hole in it is out.
package hostfallback
