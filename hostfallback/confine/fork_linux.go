package confine

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"brig/hostfallback/internal/sys"
)

// fork starts the helper with its two pipes. The kernel does not say which of
// the namespaces it refuses, so it is asked again without those that may be
// missing; what had to be left out carries the first answer as its reason.
func (s *supervisor) fork(o *order, plan, status *os.File) (int, error) {
	if !o.Namespace.Applied {
		pid, err := s.exec(0, o, plan, status)
		if err != nil {
			return 0, failure(StageFork, err)
		}
		return pid, nil
	}
	if err := sys.Dumpable(true); err != nil { // an attempt before may have ended it
		return 0, failure(StageSession, err)
	}
	var first error
	for _, rung := range o.Namespaces.rungs() {
		pid, err := s.exec(rung.flags(), o, plan, status)
		if err == nil {
			o.Namespaces = rung.because(o.Namespaces, errnoName(first))
			return pid, nil
		}
		if first == nil {
			first = err
		}
	}
	return 0, failure(StageNamespace, first)
}

// exec is one attempt with these namespaces.
func (s *supervisor) exec(namespaces uintptr, o *order, plan, status *os.File) (int, error) {
	attr := &syscall.ProcAttr{
		// No collector: it signals between threads that are confined differently. It is
		// not asked for by runtime/debug, whose initialisation comes after that of half
		// of what is linked into brig, and everything of ours would come after it.
		Env:   []string{Marker + "=" + s.plan.Token, "GOGC=off"},
		Files: []uintptr{0, 1, 2, plan.Fd(), status.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGKILL},
	}
	if namespaces != 0 {
		attr.Sys.Cloneflags = namespaces
		attr.Sys.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		attr.Sys.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
		attr.Sys.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP}
		attr.Sys.AmbientCaps = append(attr.Sys.AmbientCaps, o.Plan.kept()...)
		if o.Plan.Network == NetworkLoopback {
			attr.Sys.AmbientCaps = append(attr.Sys.AmbientCaps, unix.CAP_NET_ADMIN)
		}
	}
	return s.group.fork("/proc/self/exe", []string{"brig", VerbConfine}, attr)
}

// rung is one choice of the namespaces that may be refused by themselves.
type rung struct{ process, network bool }

// rungs are all choices from what is wanted downwards.
func (n Namespaces) rungs() []rung {
	all := []rung{{n.Process.Applied, n.Network.Applied}}
	for _, r := range []rung{{n.Process.Applied, false}, {false, n.Network.Applied}, {false, false}} {
		if r != all[len(all)-1] && r != all[0] {
			all = append(all, r)
		}
	}
	return all
}

func (r rung) flags() uintptr {
	flags := uintptr(cloneNamespaces)
	if r.process {
		flags |= unix.CLONE_NEWPID
	}
	if r.network {
		flags |= unix.CLONE_NEWNET
	}
	return flags
}

// because notes why parts that were wanted are not among the choice.
func (r rung) because(n Namespaces, errno string) Namespaces {
	if n.Process.Applied && !r.process {
		n.Process = Layer{Code: CodePIDRefused, Errno: errno}
	}
	if n.Network.Applied && !r.network {
		n.Network = Layer{Code: CodeNetRefused, Errno: errno}
	}
	return n
}
