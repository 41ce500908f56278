package enginetest

import (
	"encoding/binary"
	"slices"
)

// Container is a container as a test changes it behind brig's back.
type Container struct{ c *container }

// Containers lists what the engine has, in the order of creation.
func (e *Engine) Containers() []Container {
	list := e.all()
	slices.SortFunc(list, func(a, b *container) int { return a.created.Compare(b.created) })
	found := make([]Container, 0, len(list))
	for _, c := range list {
		found = append(found, Container{c})
	}
	return found
}

// ID and PID name it and its first process.
func (x Container) ID() string { return x.c.id }
func (x Container) PID() int   { return x.c.process.pid }

// Ended is closed when its process has ended, whether or not a daemon is there to see it.
func (x Container) Ended() <-chan struct{} { return x.c.ended }

// Kill is a SIGKILL from outside.
func (x Container) Kill() { x.c.kill() }

// Remove is "docker rm -f" by another hand.
func (x Container) Remove() {
	x.c.end("KILL")
	x.c.e.forget(x.c)
}

// Pause and Unpause are those of another hand.
func (x Container) Pause()   { x.freeze(true) }
func (x Container) Unpause() { x.freeze(false) }

func (x Container) freeze(stop bool) {
	x.c.e.mu.Lock()
	defer x.c.e.mu.Unlock()
	x.c.setFrozen(stop)
}

// RunOut kills the first process as the kernel does at the memory limit: an event
// tells of it, and the state says so.
func (x Container) RunOut() {
	e := x.c.e
	e.mu.Lock()
	x.c.oom = true
	e.announce(x.c, "oom", nil)
	e.mu.Unlock()
	x.c.kill()
}

// RunOutChild says that the kernel killed another process than the first one at the
// memory limit; killing one is up to the test. What the state makes of it is a
// matter of the engine.
func (x Container) RunOutChild() {
	e := x.c.e
	e.mu.Lock()
	defer e.mu.Unlock()
	x.c.oom = x.c.oom || e.flavor.OOMFlagOnChild
	e.announce(x.c, "oom", nil)
}

// Send writes to every attached stream as the daemon would: number 1 and 2 are the
// outputs, 3 is the daemon's own words. Length may promise more than there is.
func (x Container) Send(number byte, length int, data []byte) {
	frame := make([]byte, 8, 8+len(data))
	frame[0] = number
	binary.BigEndian.PutUint32(frame[4:], uint32(length))
	x.c.deliver(append(frame, data...))
}

// EndStreams closes the attached streams of a container that runs on, as the end of
// a connection on the way does.
func (x Container) EndStreams() { x.c.endStreams() }

// Prune is "docker container prune" by another hand: what does not run is removed.
func (e *Engine) Prune() { e.pruneStopped() }
