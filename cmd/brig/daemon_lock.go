package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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
		_ = os.WriteFile(filepath.Join(paths.State, daemonWhere), fmt.Appendf(nil, "%d %s\n", os.Getpid(), paths.Runtime), 0o600)
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
		return nil, elsewhere(paths, running)
	}
	return nil, running
}

// boundOf is what a brig has written about where it listens, for people; it may be
// of one that was killed.
func boundOf(paths config.Paths) (b api.Bound) {
	b, _ = api.ReadBound(paths.Runtime)
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

// daemonWhere is the file beside daemonLock in the state directory in which the brig
// that holds the lock says, for people, which process it is and where its sockets are.
const daemonWhere = "daemon.where"

// elsewhere is a brig that has this state directory and another runtime directory,
// where no verb of this environment finds it.
func elsewhere(paths config.Paths, running *runningError) error {
	f := &failure{Code: "running", Message: running.Error(), Remedy: "unset XDG_RUNTIME_DIR, or set it as that brig has it", Exit: exitFailed, err: running}
	text, err := os.ReadFile(filepath.Join(paths.State, daemonWhere))
	if err != nil {
		return f
	}
	pid, dir, both := strings.Cut(strings.TrimSpace(string(text)), " ")
	if n, err := strconv.Atoi(pid); both && err == nil && n > 0 {
		f.Message += fmt.Sprintf(": process %d, with %s", n, dir)
		if base, is := strings.CutSuffix(dir, string(filepath.Separator)+"brig"); is {
			f.Remedy = "to end it: XDG_RUNTIME_DIR=" + quote(base) + " brig down"
		} else {
			f.Remedy = fmt.Sprintf("to end it: kill %d", n)
		}
	}
	return f
}

// stateTaken tells whether some brig that stays has this state directory.
func stateTaken(paths config.Paths) bool {
	if _, err := os.Stat(filepath.Join(paths.State, daemonLock)); err != nil {
		return false
	}
	lock, err := owner.TryLock(filepath.Join(paths.State, daemonLock))
	if lock != nil {
		return lock.Close() != nil
	}
	return err == nil
}
