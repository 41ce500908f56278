// Package confine is the child side of the host sandbox: what two short-lived
// roles of the brig program do to themselves and for whom.
//
// The supervisor starts one instance, watches it and ends it. The helper is its
// child: it gives up everything the plan does not grant, reports layer by layer
// what the kernel accepted, and becomes the Python runner by execve. Both are
// the brig executable, started again with a hidden first argument that Dispatch
// recognises before the rest of the program is initialised.
//
//	brig ── supervisor ── helper, later the runner ── interpreter ── …
//	     control, status   plan, status
//
// The control pipe is a life line as well: its end means that brig is gone or
// wants the instance gone, and the supervisor kills everything below itself. The
// supervisor is never confined and never reads a byte that an instance wrote.
//
// A policy is rendered before anything is done: Policy.Root to the steps that make
// a private root, Policy.Rules to Landlock's rules, Filter.Program to the system
// call filter. These are pure and the same on every system; what the kernel made
// of them is read back into the Report.
//
// On Windows the supervisor is a part of brig itself and there is no helper: the
// kernel ends what is in a job whose last handle closes (see Supervise).
//
// The package is a leaf: it knows no backend, logs nothing and reads no
// environment. What it does not do: choose a policy (the plan says everything)
// and judge one (the parent turns the report into a posture).
package confine
