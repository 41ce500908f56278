package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"brig/orchestrator/api"
	"brig/orchestrator/config"
	"brig/orchestrator/owner"
)

// daemonLocks are those of daemonLock in the runtime directory, for the sockets, and in the
// state directory, for everything else. The kernel gives both up when the process
// ends, however it ends.
type daemonLocks struct{ state, runtime io.Closer }

func (l *daemonLocks) close() error {
	if l == nil {
		return nil
	}
	return errors.Join(l.runtime.Close(), l.state.Close())
}

// runningError says that a brig of this user stays already.
type runningError struct {
	bound  api.Bound
	usable bool // verbs of this environment find it
}

func (e *runningError) Error() string {
	if !e.usable {
		return "a brig with another runtime directory has this state directory"
	}
	text := "brig is running already"
	if e.bound.PID > 0 {
		text += fmt.Sprintf(" as process %d", e.bound.PID)
	}
	if e.bound.Address != "" {
		text += ", at " + e.bound.Address
	}
	return text
}

// lockDaemon makes this process the one brig that stays. *runningError. Who only
// looks whether a brig runs holds the lock for a moment too, so one try is not enough.
func lockDaemon(paths config.Paths) (locks *daemonLocks, err error) {
	for range lockTries {
		if locks, err = tryLockDaemon(paths); err == nil {
			return locks, nil
		}
		time.Sleep(lockPause)
	}
	return nil, err
}

const (
	lockTries = 15
	lockPause = 10 * time.Millisecond
)

func tryLockDaemon(paths config.Paths) (*daemonLocks, error) {
	state, err := owner.TryLock(filepath.Join(paths.State, daemonLock))
	if err != nil {
		return nil, err
	}
	runtime, err := owner.TryLock(filepath.Join(paths.Runtime, daemonLock))
	if err == nil && state != nil && runtime != nil {
		return &daemonLocks{state, runtime}, nil
	}
	inRuntime := runtime == nil
	for _, l := range []io.Closer{state, runtime} {
		if l != nil {
			err = errors.Join(err, l.Close())
		}
	}
	if err != nil {
		return nil, err
	}
	running := &runningError{bound: boundOf(paths), usable: inRuntime}
	if !inRuntime {
		return nil, &failure{
			Code: "running", Message: running.Error(), Remedy: "unset XDG_RUNTIME_DIR, or end the other with: brig down", Exit: exitFailed, err: running,
		}
	}
	return nil, running
}

// boundOf is what a brig has written about where it listens, for people; it may be
// of one that was killed.
func boundOf(paths config.Paths) (b api.Bound) {
	text, err := os.ReadFile(filepath.Join(paths.Runtime, api.EndpointFile))
	if err != nil || json.Unmarshal(text, &b) != nil {
		return api.Bound{}
	}
	return b
}

// daemonRuns tells whether a brig stays that uses this runtime directory.
func daemonRuns(paths config.Paths) (bool, error) {
	if _, err := os.Stat(filepath.Join(paths.Runtime, daemonLock)); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	lock, err := owner.TryLock(filepath.Join(paths.Runtime, daemonLock))
	if lock != nil {
		return false, lock.Close()
	}
	return err == nil, err
}
