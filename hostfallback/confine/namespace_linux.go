package confine

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// cloneNamespaces are the namespaces that an instance gets where this user may
// make them: users, to be allowed the others; mounts; System V objects; the name
// of the machine; where in the control groups it is. Those of processes and of the network may be refused by themselves.
const cloneNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// hostName is what the machine is called inside. It always has an address.
const hostName = "localhost"

// outside names the namespaces of the supervisor, as the kernel numbers them.
type outside struct {
	Process string `json:"process"`
	Network string `json:"network"`
}

// outsideOf looks at this process, which may be the helper as well.
func outsideOf() (o outside, err error) {
	if o.Process, err = os.Readlink("/proc/self/ns/pid"); err != nil {
		return o, err
	}
	o.Network, err = os.Readlink("/proc/self/ns/net")
	return o, err
}

// namespace checks what the start gave, and makes the view of the file system
// the instance's own: nothing that is mounted from here on is seen outside.
func (h *helper) namespace() error {
	h.report.Namespace = h.order.Namespace
	if !h.order.Namespace.Applied {
		return nil
	}
	h.report.Namespaces = h.order.Namespaces
	mine, err := outsideOf()
	if err != nil {
		return err
	}
	if h.order.Namespaces.Process.Applied && (mine.Process == h.order.Outside.Process || os.Getpid() != 1) {
		return errors.New("the process namespace is the one outside")
	}
	if h.order.Namespaces.Network.Applied && mine.Network == h.order.Outside.Network {
		return errors.New("the network namespace is the one outside")
	}
	if err := mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(hostName)); err != nil {
		return os.NewSyscallError("sethostname", err)
	}
	return nil
}

// network brings the loopback device of the own stack up, if the policy has one.
func (h *helper) network() error {
	if h.plan.Network != NetworkLoopback || !h.report.Namespaces.Network.Applied {
		return nil
	}
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer func() { _ = unix.Close(s) }() // it carried nothing
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("bring the loopback device up: %w", err)
	}
	if err := unix.IoctlIfreq(s, unix.SIOCGIFFLAGS, lo); err != nil {
		return fmt.Errorf("look at the loopback device: %w", err)
	}
	if lo.Uint16()&unix.IFF_UP == 0 {
		return errors.New("the loopback device stays down")
	}
	h.report.Namespaces.Loopback = true
	return nil
}

// inet says that internet sockets may be made: of the machine, or of a stack
// where nobody else is.
func (h *helper) inet() bool {
	return h.plan.Network == NetworkAllow || h.plan.Network == NetworkLoopback && h.report.Namespaces.Loopback
}

// refusedNamespace says why the kernel gave no namespaces, from its answer to
// the attempt and the switches that distributions have for it.
func refusedNamespace(err error, mounting bool) Layer {
	l := Layer{Code: CodeUsernsRefused, Errno: errnoName(err)}
	sysctl := func(name string) string {
		raw, err := os.ReadFile("/proc/sys/" + name)
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(raw))
	}
	switch {
	case sysctl("kernel/apparmor_restrict_unprivileged_userns") == "1":
		l.Code = CodeUsernsAppArmor
	case sysctl("user/max_user_namespaces") == "0", sysctl("kernel/unprivileged_userns_clone") == "0":
		l.Code = CodeUsernsSysctl
	case slices.ContainsFunc([]string{"mnt", "ipc", "uts", "cgroup"}, func(kind string) bool {
		return sysctl("user/max_"+kind+"_namespaces") == "0"
	}):
		l.Code = CodeUsernsOthers
	case mounting:
		l.Code = mountCode(l.Errno)
	}
	return l
}

func errnoName(err error) string {
	if errno := unix.Errno(0); errors.As(err, &errno) {
		return unix.ErrnoName(errno)
	}
	return ""
}
