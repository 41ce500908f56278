// Package docker is the backend that gives every session one hardened container.
// It is the only package that imports the Docker SDK.
//
// It finds the engine as the docker CLI does, says what exactly is wrong when it
// cannot, starts one container per instance with the runner as its first process,
// and talks to that runner over the attached stream alone: nothing is ever started
// by exec. What it reports about a container was read back from the engine and
// from inside the container.
//
// Order of a start: create, attach, wait for the exit, start. The hello is sent by
// Bind, because it carries the session; a runner that hears none for ten seconds
// ends, so an instance has to be bound soon after Prepare. Podman refuses to attach
// before the start and is given start, then attach (by its documentation; not tested).
//
// The life of a container hangs on the attached stream: when brig dies, the engine
// closes the runner's standard input, the runner ends, and the engine removes the
// container. No other program has to help. What an engine that dies as well leaves
// behind is removed by Sweep, by label and owner.
//
// The package pulls no image, decides no policy and never degrades: a limit or a
// layer that the engine does not apply is reported as such.
package docker
