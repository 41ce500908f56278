package selftest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// leaks are canaries where a start of a process could leave them to its child by
// mistake, and one in shared memory.
type leaks struct {
	env string
	fd  int // with no close-on-exec; zero: none
	shm string
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

	shm := "/dev/shm/" + strayName + p.token
	if err := p.yard.note(shm, false); err != nil {
		return err
	}
	// A machine without it has no target there.
	if os.WriteFile(shm, []byte(p.secret), 0o600) == nil {
		p.leaks.shm = shm
		p.told["shm"] = shm
	}
	return nil
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
		errs = append(errs, gone(os.Remove(p.leaks.shm)))
	}
	p.leaks = leaks{}
	return errors.Join(errs...)
}
