// Package docker is the backend that gives every session one hardened container.
// It is the only package that imports the Docker SDK.
//
// It finds the engine as the docker CLI does, says what exactly is wrong when it
// cannot, starts one container per instance with the runner as its first process,
// and talks to that runner over the attached stream alone: nothing is ever started
// by exec. What it reports about a container was read back from the engine and
// from inside the container.
//
// Order of a start: create, attach, wait for the exit, start, say hello. What comes
// of that waits for a session as long as it has to. Podman refuses to attach
// before the start and is given start, then attach; what else it takes differently is
// in podman.go.
//
// The life of a container hangs on the attached stream: when brig dies, the engine
// closes the runner's standard input, the runner ends, and the engine removes the
// container. No other program has to help. One with a lease outlives the stream
// until nobody has renewed it for that long, and Adopt takes it up again. What an
// engine that dies as well leaves behind is removed by Sweep, by label and owner.
//
// Why a container ended is asked of the engine's events and of counters outside of
// it, never of the engine's memory flag alone; while somebody waits, a heartbeat
// tells a hung engine and a paused container from a busy runner; and a bound
// workspace, which no engine limits, is watched.
//
// The package pulls no image, decides no policy and never degrades: a limit or a
// layer that the engine does not apply is reported as such.
package docker
