//go:build unix

package selftest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// leaks are canaries where a start of a process could leave them to its child by
// mistake, and one in shared memory.
type leaks struct {
	env string
	fd  int // with no close-on-exec; zero: none
	shm string
	own *os.File // shm, locked while this run lives; see sweepShared
}

// leastLeak is above the descriptors that an instance has for itself.
const leastLeak = 100

func (p *plot) leak() error {
	p.leaks.env = "BRIG_ST_CANARY_" + strings.ToUpper(p.token)
	if err := os.Setenv(p.leaks.env, p.secret); err != nil {
		return err
	}
	p.told["env"] = p.leaks.env

	path := filepath.Join(p.dir, "inherited")
	if err := os.WriteFile(path, []byte(p.secret), 0o600); err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD, leastLeak)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	p.leaks.fd = fd
	p.told["fd"] = fd

	shm := filepath.Join(sharedMemory, strayName+p.token)
	if err := p.yard.note(shm, false); err != nil {
		return err
	}
	// A machine without it has no target there.
	f, err = os.OpenFile(shm, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil
	}
	p.leaks.shm, p.leaks.own = shm, f
	if _, err := f.WriteString(p.secret); err == nil && unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
		p.told["shm"] = shm
	}
	return nil
}

// sweepShared removes canaries of this user's in shared memory whose run is gone,
// also those of a run whose directory somebody else has removed.
func sweepShared() {
	all, err := filepath.Glob(filepath.Join(sharedMemory, strayName+"*"))
	if err != nil {
		return
	}
	for _, path := range all {
		if !isToken(strings.TrimPrefix(filepath.Base(path), strayName)) {
			continue
		}
		f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err != nil {
			continue // somebody else's
		}
		info, err := f.Stat()
		if err == nil && info.Mode().IsRegular() && mine(info) && time.Since(info.ModTime()) > freshFor && unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = os.Remove(path) // or another run has, at this moment
		}
		_ = f.Close() // nothing was written
	}
}

func (p *plot) unleak() error {
	var errs []error
	if p.leaks.env != "" {
		errs = append(errs, os.Unsetenv(p.leaks.env))
	}
	if p.leaks.fd != 0 {
		errs = append(errs, unix.Close(p.leaks.fd))
	}
	if p.leaks.shm != "" {
		errs = append(errs, gone(os.Remove(p.leaks.shm)), p.leaks.own.Close())
	}
	p.leaks = leaks{}
	return errors.Join(errs...)
}
