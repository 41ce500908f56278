// Package enginetest is a Docker engine for tests: it speaks the engine's API on a
// real socket, and its containers are real processes that run the runner out of an
// image which was really built from the context that brig sends.
//
// It is test support and nothing that ships may import it. It shares no type with
// the SDK, so that a mistake in one cannot hide a mistake in the other; what it
// answers is compared with recordings of real engines, see testdata.
//
// It is no sandbox. A container has mount, pid, ipc and host name spaces of its own
// and loses its capabilities, because the runner needs its paths and its place as
// first process; there is no network namespace, no control group and no system call
// filter, so what a posture says about those layers is "off", and nothing that needs
// a limit of memory, processes or processors can be shown on it.
//
// What it is for: every way in which an engine can fail, on demand and without
// waiting. Inject makes requests fail before or after their effect, wait, break off
// or answer nonsense; Kill, Terminate, Restart, Hang and Resume are what may happen
// to a daemon; a Container can be killed, paused, run out of memory or vanish.
package enginetest
