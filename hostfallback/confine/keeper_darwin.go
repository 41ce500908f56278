package confine

import (
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"brig/hostfallback/internal/sys"
)

func supervise() int { return keep(mac{}) }
func confine() int   { return assist(mac{}) }

// Rescue kills what a killed supervisor could not, as far as it can be found.
func Rescue(token string, runner int) []int { return rescueWith(mac{}, token, runner) }

// mac is the machine that the keeper was written for.
type mac struct{}

func (mac) sandboxExec() string { return SandboxExec }

func (mac) helper() (string, []string, error) {
	program, err := os.Executable()
	return program, []string{"brig", VerbConfine}, err
}

func (mac) become(fd, as int) error { return unix.Dup2(fd, as) }

func (mac) release() string {
	version, err := unix.Sysctl("kern.osproductversion")
	if err != nil {
		version = "of an unknown version"
	}
	release, err := unix.Sysctl("kern.osrelease")
	if err != nil {
		release = "unknown"
	}
	return "macOS " + version + ", Darwin " + release
}

// limits are those that this kernel keeps. Not among them: memory, because macOS
// refuses some of those limits and ignores the others.
func (mac) limits() []limit {
	return []limit{
		{"core", unix.RLIMIT_CORE},
		{"nofile", unix.RLIMIT_NOFILE},
		{"fsize", unix.RLIMIT_FSIZE},
		{"nproc", unix.RLIMIT_NPROC},
	}
}

const stateZombie = 5 // SZOMB

func (mac) table() []relative {
	list, err := unix.SysctlKinfoProcSlice("kern.proc.uid", os.Geteuid())
	if err != nil {
		return nil
	}
	out := make([]relative, 0, len(list))
	for i := range list {
		p := &list[i]
		r := relative{
			pid: int(p.Proc.P_pid), parent: int(p.Eproc.Ppid), group: int(p.Eproc.Pgid), zombie: p.Proc.P_stat == stateZombie,
			start: p.Proc.P_starttime.Sec*1e6 + int64(p.Proc.P_starttime.Usec),
		}
		if session, err := unix.Getsid(r.pid); err == nil {
			r.session = session
		}
		r.unique, r.made = sys.UniqueIDs(r.pid)
		out = append(out, r)
	}
	return out
}

// marked reads the environment that a process was started with. That of a program
// which is part of the system is not told to anybody.
func (mac) marked(pid int, entry string) bool {
	raw, err := unix.SysctlRaw("kern.procargs2", pid)
	return err == nil && slices.Contains(environmentOf(raw), entry)
}

func (mac) inside(pid int, may, mayNot string) (is, known bool) {
	allowed, known := sys.SandboxAllowsRead(pid, may)
	if !known || !allowed {
		return false, known
	}
	allowed, known = sys.SandboxAllowsRead(pid, mayNot)
	return known && !allowed, known
}

func (mac) usage(pid int) (bytes int64, threads int) {
	bytes, ok := sys.Footprint(pid)
	resident, threads := sys.TaskInfo(pid)
	if !ok {
		bytes = resident
	}
	return bytes, max(threads, 1)
}

func (mac) measure() string {
	if _, ok := sys.Footprint(os.Getpid()); ok {
		return MeasureFootprint
	}
	return MeasureResident
}

// forks listens for forks of the processes that are attended. Who was made is not
// told, so the table has to be read again.
func (mac) forks() (<-chan struct{}, func(int)) {
	tell := make(chan struct{}, 1)
	kq, err := unix.Kqueue()
	if err != nil {
		return tell, nil // the ticks have to do
	}
	unix.CloseOnExec(kq)
	go func() {
		events := make([]unix.Kevent_t, 16)
		for {
			n, err := unix.Kevent(kq, nil, events, nil)
			if err != nil && err != unix.EINTR {
				return
			}
			if n > 0 {
				select {
				case tell <- struct{}{}:
				default: // it is about to be looked at
				}
			}
		}
	}()
	attended := map[int]bool{}
	return tell, func(pid int) {
		if attended[pid] {
			return
		}
		attended[pid] = true
		change := unix.Kevent_t{Fflags: unix.NOTE_FORK | unix.NOTE_EXIT}
		unix.SetKevent(&change, pid, unix.EVFILT_PROC, unix.EV_ADD|unix.EV_CLEAR)
		if _, err := unix.Kevent(kq, []unix.Kevent_t{change}, nil, nil); err != nil {
			delete(attended, pid) // it has ended, or is asked about again
		}
	}
}
