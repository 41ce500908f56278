//go:build linux || darwin

package confine

import (
	"io"
	"os"
	"os/signal"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// awaitOrder closes ordered when brig closes the control pipe, by intent or by its
// death, or when somebody asks this process to end.
func awaitOrder(control io.Reader, ordered chan<- struct{}) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	silent := make(chan struct{})
	go func() {
		defer close(silent)
		_, _ = io.Copy(io.Discard, control) // its end is the message
	}()
	select {
	case <-signals:
	case <-silent:
	}
	close(ordered)
}

// takeLock opens the lock file of an instance's directory and holds a shared lock
// on it for as long as the file is open. With an error the file may be open as well.
func takeLock(home string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(home, LockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return f, unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
}
